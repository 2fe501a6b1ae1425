# SPDX-License-Identifier: Apache-2.0
"""Every governed law at the corners of the gate and of its gains: no fault, at rest in the end."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from multipanda_py.config.sections import Q_READY, GateConfig
from multipanda_py.robots.limits import FR3_LIMITS

from multipanda_py import registry
from multipanda_py.parameters import ParameterSet
from multipanda_py.pose import Pose

GATE = GateConfig()
POSES = ["cartesian_impedance", "operational_space", "force_impedance", "admittance"]
SOFTEST = {"operational_space": [25.0] * 6}
"""Gains so soft that an arm does not move say nothing: where the bound is zero, these instead."""

pytestmark = [pytest.mark.sim, pytest.mark.robustness]


def gains(law, which):
    """The default gains, or stiffness and damping at their lowest or highest together."""
    if which == "default":
        return {}
    side = {"lowest": 0, "highest": 1}[which]
    found = {}
    for spec in ParameterSet(registry.find("controllets", law).Params).specs:
        if spec.name in ("stiffness", "damping_ratio"):
            found[spec.name] = [bounds[side] for bounds in spec.bounds]
    if which == "lowest":
        soft = (
            [50.0] * 4 + [20.0, 10.0, 5.0] if law == "joint_impedance" else [50.0] * 3 + [5.0] * 3
        )
        found["stiffness"] = SOFTEST.get(law, soft)
    return found


def steps(rng):
    """Steps of the gate's full size: along axes, about axes, both, and any."""
    axes = [sign * axis for sign in (1, -1) for axis in np.eye(3)]
    yield rng.choice(axes), rng.choice(axes)
    for axis in rng.permutation(axes):
        yield axis, np.zeros(3)
        yield np.zeros(3), axis
        move, turn = rng.normal(size=(2, 3))
        yield move / np.linalg.norm(move), turn / np.linalg.norm(turn)


def rest(cell, seconds=6.0, slowest=0.05):
    """Step until the arm is at rest, or for too long."""
    for _ in range(round(seconds / 0.5)):
        cell.step(500)
        assert cell.state("arm").fault == "", [event.text for event in cell.events()]
        _, rows = cell.rows()
        if np.abs(rows["arms"]["dq"][-200:, 0]).max() < slowest:
            return
    raise AssertionError(f"still moves at {cell.state('arm').dq.round(3).tolist()} rad/s")


def started(make_cell, law, which, q):
    laws = {"law": {"type": law, "params": gains(law, which)}}
    arm = {"q_start": list(map(float, q))}
    cell = make_cell(arms={"arm": arm}, controllets=laws, active=["arm/law"])
    cell.step(20)
    return cell


@pytest.mark.parametrize("which", ["default", "lowest", "highest"])
@pytest.mark.parametrize("law", POSES)
def test_poses(make_cell, episodes, law, which):
    rng = np.random.default_rng(21)
    n = episodes(1, 19)
    for episode, (move, turn) in zip(range(n), steps(rng)):
        q = np.array(Q_READY) + (episode % 2) * rng.uniform(-0.4, 0.4, 7)
        cell = started(make_cell, law, which, q)
        here = cell.pose("arm")
        rotation = pin.exp3(0.999 * GATE.rotation * turn) @ here.rotation
        cell.set_target("arm", Pose(here.position + 0.999 * GATE.position * move, rotation))
        rest(cell)


@pytest.mark.parametrize("which", ["default", "lowest", "highest"])
def test_postures(make_cell, episodes, which):
    rng = np.random.default_rng(22)
    for episode in range(episodes(1, 20)):
        q = np.array(Q_READY) + (episode % 2) * rng.uniform(-0.4, 0.4, 7)
        cell = started(make_cell, "joint_impedance", which, q)
        goal = cell.state("arm").q + 0.999 * GATE.joint * rng.choice([-1, 1], 7)
        cell.set_target("arm", q=np.clip(goal, FR3_LIMITS.lower + 0.01, FR3_LIMITS.upper - 0.01))
        rest(cell)
