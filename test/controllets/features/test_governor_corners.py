# SPDX-License-Identifier: Apache-2.0
"""Governed controllets at the corners of the gate and of their gains: no fault, final rest.

Joint configurations cover the whole workspace. Near singular ones, springs are slow over the last
5 centimetres; motion of every joint in one direction counts as rest there. The softest springs
with the least damping oscillate as specified; they must lose 0.9 of their speed.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from configurations import anywhere
from long_form import every_nth

from multipanda_py import registry
from multipanda_py.config.sections import GateConfig
from multipanda_py.parameters import ParameterSet
from multipanda_py.pose import Pose
from multipanda_py.robots import READY_CONFIGURATION as Q_READY
from multipanda_py.robots.franka import FR3_LIMITS

GATE = GateConfig()
POSES = ["cartesian_impedance", "operational_space", "force_impedance", "admittance"]
SOFTEST = {"operational_space": [25.0] * 6}
"""Replacements for bounds of zero, with which an arm would not move."""
KNOWN_STEP = np.array([[-1.23, 0.62, 0.74], [-1.15, -0.66, -0.08]])
"""Directions of a step that ended in velocity_limit."""
STRETCHED = (
    [0.459, -0.134, 1.932, -0.877, 0.142, 3.126, -1.145],
    [0.1476, 0.0229, 0.0121],
    [0.3595, -0.436, 0.1998],
)
BENT = (
    [1.545, -0.338, 0.912, -2.327, 1.695, 2.445, 2.638],
    [0.008, 0.0779, -0.1278],
    [0.0, 0.0, 0.0],
)
"""Joint configurations, steps [m] and rotations [rad] that also ended in velocity_limit."""

pytestmark = [pytest.mark.sim, pytest.mark.robustness, pytest.mark.inline]


def gains(law, which):
    """Return the default gains, or stiffness and damping both at their lowest or highest."""
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
    """Yield steps of the full size of the gate: along axes, about axes, both, and random."""
    axes = [sign * axis for sign in (1, -1) for axis in np.eye(3)]
    yield rng.choice(axes), rng.choice(axes)
    for axis in rng.permutation(axes):
        yield axis, np.zeros(3)
        yield np.zeros(3), axis
        move, delta_rotation = rng.normal(size=(2, 3))
        yield move / np.linalg.norm(move), delta_rotation / np.linalg.norm(delta_rotation)


def rest(cell, which="default", seconds=6.0, slowest=0.05):
    """Step until the arm is at rest or creeps without oscillation; fail after too long."""
    fastest = 0.0
    for _ in range(round(seconds / 0.5)):
        cell.step(500)
        assert cell.state("arm").fault == "", [event.text for event in cell.events()]
        _, rows = cell.records()
        speeds = np.abs(rows["arms"]["dq"][-500:, 0])
        fastest = max(fastest, speeds.max())
        if speeds[-200:].max() < max(slowest, 0.1 * fastest * (which == "lowest")):
            return
    last = rows["arms"]["dq"][-1000:, 0]
    if np.minimum(last.max(axis=0), -last.min(axis=0)).max() < slowest:
        return
    raise AssertionError(f"still moves at {cell.state('arm').dq.round(3).tolist()} rad/s")


def started(make_cell, law, which, q):
    laws = {"law": {"type": law, "params": gains(law, which)}}
    arm = {"q_start": list(map(float, q))}
    cell = make_cell(arms={"arm": arm}, controllets=laws, active=["arm/law"])
    cell.step(20)
    return cell


CASES = [(law, which) for law in POSES for which in ("default", "lowest", "highest")]


@pytest.mark.parametrize(("law", "which"), every_nth(4, CASES))
def test_pose_steps_at_corner_gains_end_at_rest(make_cell, episodes, law, which):
    rng = np.random.default_rng([21, *f"{law} {which}".encode()])
    n = episodes(1, 19)
    for episode, (move, delta_rotation) in zip(range(n), steps(rng)):
        q = anywhere(rng) if episode % 3 < 2 else np.array(Q_READY)
        cell = started(make_cell, law, which, q)
        here = cell.pose("arm")
        rotation = pin.exp3(0.999 * GATE.rotation * delta_rotation) @ here.rotation
        cell.set_target("arm", Pose(here.position + 0.999 * GATE.position * move, rotation))
        rest(cell, which)


@pytest.mark.parametrize("which", ["default", "lowest", "highest"])
def test_joint_steps_at_corner_gains_end_at_rest(make_cell, episodes, which):
    rng = np.random.default_rng([22, *which.encode()])
    for episode in range(episodes(1, 20)):
        q = anywhere(rng) if episode % 3 < 2 else np.array(Q_READY)
        cell = started(make_cell, "joint_impedance", which, q)
        goal = cell.state("arm").q + 0.999 * GATE.joint * rng.choice([-1, 1], 7)
        cell.set_target("arm", q=np.clip(goal, FR3_LIMITS.lower + 0.01, FR3_LIMITS.upper - 0.01))
        rest(cell, which)


@pytest.mark.parametrize("ratio", [2.0, 5.0])
def test_velocity_feedforward_through_strong_damper_ended_in_velocity_limit(
    make_cell, episodes, ratio
):
    """The stiffest gains and a strong damper, on a late, heavy arm with an unknown payload."""
    rng = np.random.default_rng(3)
    arm = {"state_delay": 0.005, "inertia_scale": 1.2, "payload": 3.0}
    params = {"stiffness": [5000.0] * 3 + [300.0] * 3, "damping_ratio": [ratio] * 6}
    known = np.array([-0.33, -0.67, 0.40, -1.97, -0.37, 1.70, 1.18])
    for episode in range(episodes(1, 20)):
        q = known if not episode else np.array(Q_READY) + rng.uniform(-0.5, 0.5, 7)
        move, delta_rotation = KNOWN_STEP if not episode else rng.normal(size=(2, 3))
        laws = {"law": {"type": "cartesian_impedance", "params": params}}
        arms = {"arm": {"q_start": q.tolist(), "perturbation": arm}}
        cell = make_cell(arms=arms, controllets=laws, active=["arm/law"])
        cell.step(20)
        here = cell.pose("arm")
        rotation = (
            pin.exp3(0.98 * GATE.rotation * delta_rotation / np.linalg.norm(delta_rotation))
            @ here.rotation
        )
        step = 0.98 * GATE.position * move / np.linalg.norm(move)
        cell.set_target("arm", Pose(here.position + step, rotation))
        cell.step(1000)
        _, rows = cell.records()
        assert cell.state("arm").fault == "", [event.text for event in cell.events()]
        changes = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max(axis=1)
        assert (changes > 0.99).mean() < 0.15


@pytest.mark.parametrize(
    ("ratio", "perturbation", "q", "move", "delta_rotation"),
    [
        (1.0, {}, *STRETCHED),
        (0.5, {"state_delay": 0.005, "torque_lag": 0.002}, *BENT),
    ],
    ids=["nearly singular", "late"],
)
def test_abrupt_braking_at_speed_bound_ended_in_velocity_limit(
    make_cell, ratio, perturbation, q, move, delta_rotation
):
    """Where the bound of the joint speeds ended, the stiffest spring requested 100 Nm in 40 ms."""
    params = {"stiffness": [1600.0] * 6, "damping_ratio": [ratio] * 6}
    laws = {"law": {"type": "operational_space", "params": params}}
    arm = {"q_start": q, "perturbation": perturbation}
    cell = make_cell(arms={"arm": arm}, controllets=laws, active=["arm/law"])
    cell.step(20)
    here = cell.pose("arm")
    cell.set_target(
        "arm", Pose(here.position + move, pin.exp3(np.array(delta_rotation)) @ here.rotation)
    )
    cell.step(750)
    assert cell.state("arm").fault == "", [event.text for event in cell.events()]
    _, rows = cell.records()
    assert (np.abs(rows["arms"]["dq"][:, 0]) < 0.75 * FR3_LIMITS.velocity).all()
