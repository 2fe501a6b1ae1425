# SPDX-License-Identifier: Apache-2.0
"""Controllets with torque and position commands on franka-sim, an independent simulator.

It has its own checks of commanded motions against the limits of the FCI.
"""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from franka_sim import FrankaSim
from processes import recovers, wait_until

from multipanda_py.pose import Pose
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.clock]

TORQUE_LAWS = {
    "cartesian": {"type": "cartesian_impedance"},
    "joint": {"type": "joint_impedance"},
    "operational": {"type": "operational_space"},
    "force": {"type": "force_impedance"},
    "admittance": {"type": "admittance"},
    "trajectory": {"type": "joint_trajectory"},
    "velocity": {"type": "joint_velocity"},
    "floating": {"type": "gravity_compensation"},
}
POSITION_LAWS = {
    "rate": {"type": "joint_rate"},
    "position": {"type": "joint_position"},
    "pose": {"type": "cartesian_pose"},
}


@pytest.fixture
def rig(new_address, tmp_path):
    """Return a function that starts a robot of franka-sim and a cell for it."""
    made = []

    def make(laws, active=()):
        sim = FrankaSim(new_address(), tmp_path)
        made.append(sim.kill)
        sim.start()
        arm = {"backend": "franka", "robot_ip": sim.address, "gripper": False,
               "franka": {"model_check": "off"}}  # fmt: skip
        cell = simple_cell(
            {"left": arm}, laws, active, placement="process", heartbeat_timeout=10.0,
            name=f"franka_sim_{uuid.uuid4().hex[:10]}",
        )  # fmt: skip
        made.append(cell.close)
        cell.start()
        return sim, cell

    yield make
    while made:
        made.pop()()


def is_sound(sim, cell):
    state = cell.state("left")
    assert state.fault == "", cell.events()[-2:]
    assert sim.violations() == [], f"{sim.lost()} commands were late"
    return state


def at(cell):
    """Return the state of the arm for a message."""
    state = cell.state("left")
    return state.owner, state.fault, np.round(state.dq, 3), cell.events()[-2:]


def run(cell, seconds):
    """Run the loop for a period of robot time [s]."""
    begin = cell.time
    wait_until(lambda: cell.time >= begin + seconds)


def activate(cell, law):
    cell.hold()
    wait_until(lambda: np.abs(cell.state("left").dq).max() < 0.1, 5.0, lambda: at(cell))
    cell.switch([f"left/{law}"], strictness="force_auto", timeout=3.0)
    assert cell.state("left").owner == f"left/{law}"


@pytest.mark.slow
def test_every_torque_controllet_rests_at_start(rig):
    sim, cell = rig(TORQUE_LAWS, ["left/cartesian"])
    assert is_sound(sim, cell).owner == "left/cartesian"
    before = cell.pose("left")
    goal = before.position + [0.0, 0.02, 0.03]
    cell.set_target("left", Pose(goal, before.rotation))
    wait_until(
        lambda: np.linalg.norm(cell.pose("left").position - goal) < 1.5e-2, 5.0, cell.events
    )
    for law in TORQUE_LAWS:
        activate(cell, law)
        q = cell.state("left").q.copy()
        run(cell, 0.4)
        np.testing.assert_allclose(is_sound(sim, cell).q, q, atol=8e-3, err_msg=law)


@pytest.mark.slow
def test_commanded_motions_exceeded_limits_of_independent_check(rig):
    """Jerk of 9 932 rad/s^3 and acceleration of 11.3 rad/s^2; the check only reports here.

    franka-sim takes the first command of a motion for a standstill. It bridges a late command
    and then applies it.
    """
    sim, cell = rig(POSITION_LAWS)
    activate(cell, "rate")
    speed = np.full(7, 0.3)
    for sign in (1.0, -1.0, 0.0):
        for _ in range(50):
            is_sound(sim, cell)
            cell.set_target("left", dq=sign * speed)
            run(cell, 0.01)
    is_sound(sim, cell)
    activate(cell, "position")
    q = cell.state("left").q + 0.15
    cell.set_target("left", q=q)
    wait_until(lambda: np.abs(cell.state("left").q - q).max() < 0.01, 8.0, cell.events)
    is_sound(sim, cell)
    activate(cell, "pose")
    pose = cell.pose("left")
    cell.set_target("left", Pose(pose.position + [0.0, 0.04, -0.03], pose.rotation))
    wait_until(lambda: np.abs(cell.state("left").dq).max() < 0.1, 5.0, lambda: at(cell))
    run(cell, 0.5)
    is_sound(sim, cell)


@pytest.mark.slow
def test_robot_recovers_after_kill_and_restart(rig):
    sim, cell = rig({"cartesian": {"type": "cartesian_impedance"}}, ["left/cartesian"])
    before = cell.pose("left")
    cell.set_target("left", Pose(before.position + [0.0, 0.05, 0.0], before.rotation))
    run(cell, 0.2)
    cell.hold()
    wait_until(lambda: np.abs(cell.state("left").dq).max() < 0.02, 2.0, cell.events)
    assert is_sound(sim, cell).owner == "left/hold"
    sim.kill()
    wait_until(lambda: cell.state("left").fault == "arm_stopped", 3.0, cell.events)
    sim.start()
    wait_until(lambda: recovers(cell), 10.0, cell.events)
    cell.switch(["left/cartesian"], strictness="force_auto", timeout=3.0)
    q = cell.state("left").q.copy()
    run(cell, 0.3)
    np.testing.assert_allclose(is_sound(sim, cell).q, q, atol=8e-3)
