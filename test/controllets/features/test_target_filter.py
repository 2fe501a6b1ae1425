# SPDX-License-Identifier: Apache-2.0
"""Low-pass filter of targets, against its closed form."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.controllets.features.target_filter import TargetFilter, TargetFilterParams
from multipanda_py.pose import Pose
from multipanda_py.targets import CartesianTarget, ObjectTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


def started(target, time, n=1):
    maker = StateMaker(n)
    states = maker.states_at([np.zeros(7)] * n)
    part = TargetFilter(maker.context, TargetFilterParams(time_constant=time))
    part.on_activate(states, target)
    return part, states


def test_targets_follow_first_order_with_time_constant():
    target = CartesianTarget(1)
    target.rotation_ee_in_base[0][:] = np.eye(3)
    part, states = started(target, 0.08)
    delta_rotation, goal = np.array([0.3, -0.5, 0.4]), np.array([0.1, 0.0, -0.2])
    for k in range(1, 2001):
        target.position_ee_in_base[0][:] = goal
        target.rotation_ee_in_base[0][:] = pin.exp3(delta_rotation)
        target.nullspace_configuration[0][:] = 0.5
        part.prepare(states, target, PERIOD)
        fraction = 1 - np.exp(-k * PERIOD / 0.08)
        assert np.allclose(target.position_ee_in_base[0], fraction * goal, atol=2e-9)
        assert np.allclose(
            pin.log3(target.rotation_ee_in_base[0]), fraction * delta_rotation, atol=2e-9
        )
        assert np.allclose(target.nullspace_configuration[0], fraction * 0.5, atol=2e-9)
    assert np.array_equal(target.position_ee_in_base[0], goal)
    assert np.array_equal(target.rotation_ee_in_base[0], pin.exp3(delta_rotation))


def test_zero_time_constant_passes_targets_through():
    target = ObjectTarget(2)
    target.rotation_object_in_world[:] = np.eye(3)
    part, states = started(target, 0.0, 2)
    target.position_object_in_world[:] = [0.1, 0.2, 0.3]
    part.prepare(states, target, PERIOD)
    assert np.allclose(target.position_object_in_world, [0.1, 0.2, 0.3], atol=1e-15)


@pytest.mark.sim
def test_filtered_target_arrives_exactly_and_filter_can_be_disabled(make_cell):
    law = {"type": "cartesian_impedance", "features": ["target_filter", "nullspace", "coriolis"]}
    cell = make_cell(arms={"arm": {}}, controllets={"law": law}, active=["arm/law"])
    target = cell.loop.owners.active[0].target
    start = cell.pose("arm")
    goal = Pose(start.position + [0.0, 0.1, 0.0], start.rotation)
    cell.set_target("arm", goal)
    cell.step(100)
    moved = target.position_ee_in_base[0][1] - start.position[1]
    assert 0.0 < moved < 0.08
    before = target.position_ee_in_base[0].copy()
    cell.set_parameters("arm/law", {"target_filter.enabled": False})
    cell.step()
    assert np.abs(target.position_ee_in_base[0] - before).max() < 1e-3  # the governor continues
    cell.step(2500)
    assert np.array_equal(target.position_ee_in_base[0], goal.position)
