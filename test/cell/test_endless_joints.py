# SPDX-License-Identifier: Apache-2.0
"""Continuous joints: shortest path to targets, no jumps of positions."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.hardware.mock import Mock
from multipanda_py.realtime.cycle_checks import JointUnwrap
from multipanda_py.robots.models import MODELS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

GEN3 = MODELS["kinova_gen3"]
START = [*GEN3.ready[:2], np.pi - 0.1, *GEN3.ready[3:]]


@pytest.fixture
def cell(make_cell):
    laws = {
        name: {"type": name} for name in ("joint_impedance", "joint_velocity", "joint_trajectory")
    }
    arms = {"arm": {"model": "kinova_gen3", "q_start": START}}
    return make_cell(arms, laws, ["arm/joint_impedance"])


def test_target_beyond_half_revolution_is_reached_by_shortest_path(cell):
    goal = np.array(START)
    goal[2] = -np.pi + 0.1  # 0.2 rad forward instead of 6.1 rad back
    cell.set_target("arm", q=goal)
    cell.step(2000)
    q = cell.state("arm").q
    assert q[2] == pytest.approx(np.pi + 0.1, abs=1e-3)
    np.testing.assert_allclose(np.delete(q, 2), np.delete(goal, 2), atol=1e-3)
    cell.set_target("arm", q=goal + 2 * np.pi * np.array([1, 0, -3, 0, 2, 0, 1]))
    cell.step(500)
    np.testing.assert_allclose(cell.state("arm").q, q, atol=2e-3)


def test_trajectory_starts_by_shortest_path_and_keeps_its_revolutions(cell):
    cell.switch(["arm/joint_trajectory"], strictness=Strictness.FORCE_AUTO)
    goal = np.array(START)
    goal[2] = -np.pi + 0.1
    rest = [0.0] * 14
    further = goal + 0.3 * np.eye(7)[2]
    cell.follow_trajectory("arm", [[1.0, *goal, *rest], [2.0, *further, *rest]])
    cell.step(2500)
    assert cell.state("arm").q[2] == pytest.approx(np.pi + 0.4, abs=2e-3)


def test_wrapped_joint_angle_made_controllet_jump(make_cell, monkeypatch):
    """The robot reports wrapped angles; springs, velocities and hold use continuous ones."""
    read = Mock.read

    def wrapped(self, fresh):
        read(self, fresh)
        for state in self.states:
            state.q[[0, 2, 4, 6]] = np.remainder(state.q[[0, 2, 4, 6]] + np.pi, 2 * np.pi) - np.pi

    monkeypatch.setattr(Mock, "read", wrapped)
    laws = {name: {"type": name} for name in ("joint_impedance", "joint_velocity")}
    arms = {"arm": {"model": "kinova_gen3", "q_start": START, "backend": "mock"}}
    cell = make_cell(arms, laws, ["arm/joint_velocity"])
    for _ in range(20):
        cell.set_target("arm", dq=[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0])
        cell.step(50)
    state = cell.state("arm")
    assert not state.fault
    assert np.pi + 0.1 < state.q[2] < np.pi + 0.5
    cell.switch([], ["arm/joint_velocity"])
    cell.step(1000)
    held = cell.state("arm")
    assert not held.fault
    assert np.abs(held.dq).max() < 1e-3
    assert held.q[2] == pytest.approx(state.q[2], abs=0.1)


def test_revolutions_are_counted_both_ways_and_nan_is_kept():
    (state,) = StateMaker(model="kinova_gen3").states_at([np.zeros(7)])
    unwrapper = JointUnwrap(state)
    angle = 6.0  # the robot reports 0 to 2 pi
    for step in (*[0.4] * 40, *[-0.4] * 90):
        angle += step
        state.q[:] = 0.0
        state.q[2] = np.remainder(angle, 2 * np.pi)
        unwrapper.unwrap()
    assert state.q[2] == pytest.approx(angle - 2 * np.pi)  # the first angle is taken unchanged
    before = state.q[2]
    state.q[2] = np.nan
    unwrapper.unwrap()
    assert np.isnan(state.q[2])
    state.q[2] = np.remainder(angle, 2 * np.pi)
    unwrapper.unwrap()
    assert state.q[2] == pytest.approx(before)
