# SPDX-License-Identifier: Apache-2.0
"""Motions, forces and objects at the corners of the gate: no fault, final rest.

test/controllets/features/test_governor_corners.py has the controllets behind a governor.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from configurations import anywhere
from contact_rig import ContactRig
from long_form import every_nth

from multipanda_py import registry
from multipanda_py.config.sections import GateConfig
from multipanda_py.control.reference.governor_base import GovernorParams
from multipanda_py.control.reference.trajectory_monitor import MotionState
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.robots import READY_CONFIGURATION as Q_READY
from multipanda_py.robots.franka import FR3_LIMITS

GATE = GateConfig()
LATE = {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}
SLOWEST = 0.05
"""Maximum joint speed at rest [rad/s]."""

pytestmark = [pytest.mark.sim, pytest.mark.robustness, pytest.mark.inline]


def rest(cell, seconds=4.0, names=("arm",)):
    """Step until all arms are at rest; fail after too long."""
    for _ in range(round(seconds / 0.25)):
        cell.step(250)
        assert all(cell.state(n).fault == "" for n in names), [e.text for e in cell.events()]
        if np.abs(cell.records()[1]["arms"]["dq"][-200:]).max() < SLOWEST:
            return
    raise AssertionError(f"still moves at {[cell.state(n).dq.round(3).tolist() for n in names]}")


def corners(rng, size=3):
    """Yield unit directions: along an axis, then random."""
    while True:
        yield rng.choice([-1.0, 1.0]) * np.eye(size)[rng.integers(size)]
        direction = rng.normal(size=size)
        yield direction / np.linalg.norm(direction)


@pytest.mark.parametrize("stopped", [False, True])
def test_joint_trajectory_at_full_speed_comes_to_rest_or_stops(make_cell, episodes, stopped):
    """Gate steps and long paths on a late, heavy arm; stops start at the maximum speed."""
    rng = np.random.default_rng(5 + stopped)
    law = {"law": {"type": "joint_trajectory", "params": {"velocity_scaling": 1.0}}}
    for episode in range(episodes(1, 40)):
        q = anywhere(rng)
        arm = {"q_start": q.tolist(), "perturbation": {} if episode % 2 else LATE}
        cell = make_cell(arms={"arm": arm}, controllets=law, active=["arm/law"])
        far = 1.5 if stopped else 0.999 * GATE.joint
        low, high = FR3_LIMITS.lower + 0.1, FR3_LIMITS.upper - 0.1
        goal = np.clip(q + far * rng.choice([-1, 1], 7), low, high)
        cell.set_target("arm", q=goal)
        if stopped:
            fastest = 0.0
            while (speed := np.abs(cell.state("arm").dq).max()) >= fastest:
                fastest = speed
                cell.step(20)
            assert fastest > 1.0
            cell.follow_trajectory("arm", [])
        rest(cell)
        if not stopped:
            if cell.report("arm/law")["state"] == MotionState.RUNNING:  # its own links are near
                cell.step(1500)
            blocked = cell.report("arm/law")["state"] == MotionState.BLOCKED
            assert blocked or np.abs(cell.state("arm").q - goal).max() < 0.05
        cell.close()


def exertable(rig, wrench):
    """Return the part of a wrench that the joints can exert here, by MuJoCo's Jacobian."""
    fraction = np.abs(rig.jacobian().T @ wrench / FR3_LIMITS.torque).max()
    if fraction > 0.9:
        with pytest.raises(TargetRejected, match=r"joint \d .*\barm: wrench\b"):
            rig.cell.set_target("arm", wrench=wrench)
    return wrench * min(1.0, 0.89 / fraction)


@pytest.mark.parametrize("part", every_nth(2, ["force", "torque"]))
@pytest.mark.parametrize("stiffness", [0.0, 1e4])
def test_gate_wrench_in_free_space_and_in_contact(episodes, stiffness, part):
    """Requested as a step, reversed in free space, and withdrawn."""
    rng = np.random.default_rng(7)
    directions, where = corners(rng), slice(0, 3) if part == "force" else slice(3, 6)
    for episode in range(episodes(1, 20)):
        arm = {"perturbation": {} if episode % 2 else LATE}
        if not stiffness:
            arm["q_start"] = anywhere(rng).tolist()
        rig = ContactRig(stiffness, 0.002 if stiffness else 1.0, arm=arm)
        presses = stiffness > 0.0 and part == "force"
        wrench = np.zeros(6)
        wrench[where] = [0.0, 0.0, -0.999] if presses else 0.999 * next(directions)
        wrench *= GATE.force if part == "force" else GATE.torque
        maximum = 0.0
        for sign in (1.0,) if presses else (1.0, -1.0):
            rig.cell.set_target("arm", wrench=exertable(rig, sign * wrench))
            maximum = max(maximum, rig.step(1000)[0].max())
        rig.cell.set_target("arm", wrench=[0.0] * 6)
        rig.step(1500)
        fault, dq = rig.cell.state("arm").fault, rig.cell.records()[1]["arms"]["dq"][-200:]
        rig.close()
        assert fault == ""
        assert np.abs(dq).max() < SLOWEST
        assert not presses or 0.8 * GATE.force < maximum < 1.5 * GATE.force


PAIR = ["left", "right"]
BASES = {"left": [0.0, 0.3, 0.0], "right": [0.0, -0.3, 0.0]}


def pair(make_cell, law, perturbation, rng):
    q = np.array(Q_READY)
    arms = {
        name: {"position": base, "perturbation": perturbation,
               "q_start": (q + rng.uniform(-0.2, 0.2, 7)).tolist()}
        for name, base in BASES.items()
    }  # fmt: skip
    laws = {"law": {"type": law, "arms": PAIR}}
    cell = make_cell(arms=arms, controllets=laws, active=["law"])
    cell.step(20)
    return cell


@pytest.mark.parametrize("law", ["coupled_impedance", "coupled_force_impedance"])
def test_internal_force_of_gate_without_object(make_cell, episodes, law):
    rng = np.random.default_rng(9)
    for episode in range(episodes(1, 20)):
        cell = pair(make_cell, law, {} if episode % 2 else LATE, rng)
        for requested_force in (0.999 * GATE.force, 0.0):
            cell.set_object_target("law", internal_force=requested_force)
            rest(cell, names=PAIR)
        cell.close()


def test_object_steps_of_gate(make_cell, episodes):
    rng = np.random.default_rng(10)
    directions, axes = corners(rng), corners(rng)
    for episode in range(episodes(1, 30)):
        cell = pair(make_cell, "coupled_impedance", {} if episode % 2 else LATE, rng)
        report = cell.report("law")
        middle = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
        rotation = pin.exp3(0.999 * GATE.rotation * next(axes))
        cell.set_object_target(
            "law", Pose(middle + 0.999 * GATE.position * next(directions), rotation)
        )
        rest(cell, names=PAIR)
        cell.close()


def declared(law, name):
    """Return the default of a vector parameter of a controllet."""
    return getattr(registry.find("controllets", law).Params(), name)


@pytest.mark.parametrize("law", ["cartesian_impedance", "operational_space", "force_impedance"])
def test_error_clip_covers_step_allowed_by_gate(law):
    clip = declared(law, "error_clip")
    assert (clip[:3] >= GATE.position).all()
    assert (clip[3:] >= GATE.rotation).all()


def test_governor_speed_covers_speed_allowed_by_gate():
    assert GovernorParams().linear_speed >= GATE.linear_speed
    assert GovernorParams().angular_speed >= GATE.angular_speed
