# SPDX-License-Identifier: Apache-2.0
"""UR5e with position commands over topics; the other process keeps the last command."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from processes import wait_until

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.node]

LAWS = {
    "joint": {"type": "joint_position"},
    "pose": {"type": "cartesian_pose"},
    "rates": {"type": "joint_rate", "params": {"timeout": 10.0}},
    "bad": {"type": "unsteady_position"},
}
STEP = np.array([0.3, 0.1, -0.2, 0.1, 0.2, -0.3])
# Upwards because no motion starts near the floor.
RELOCATION = np.array([0.4, -0.4, -0.4, 0.4, 0.4, 0.4])


@pytest.fixture(scope="module")
def shared(rig_of):
    made = rig_of(laws=LAWS, interface="position", watchdog=False, heavy=False)
    yield made.start()
    made.close()


@pytest.fixture
def rig(shared):
    """Return the rig without fault and at rest."""
    shared.arm.send(spoil="")
    if shared.fault():
        shared.recover()
    shared.cell.hold()
    rest(shared)
    shared.cell.events()
    return shared


def q_of(rig):
    return np.array(rig.arm.send()["q"])


def rest(rig):
    """Wait until the arm is at rest; return its joint positions."""
    wait_until(lambda: max(map(abs, rig.arm.send()["dq"])) < 1e-9, what=lambda: str(rig.texts()))
    return q_of(rig)


def move(rig, by):
    rig.cell.switch(["ur/joint"], strictness="force_auto")
    goal = q_of(rig) + by
    rig.cell.set_target("ur", q=goal)
    rig.until(lambda: np.abs(q_of(rig) - goal).max() < 1e-3)


def is_stopped(rig, kind):
    wait_until(rig.fault, what=lambda: str(rig.texts()))
    assert any(text.startswith(kind) for text in rig.texts())


def start_rotation(rig):
    """Move joint 1 at 0.5 rad/s."""
    rig.cell.switch(["ur/rates"], strictness="force_auto")
    rig.cell.set_target("ur", dq=[-0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    rig.until(lambda: rig.arm.send()["dq"][0] < -0.45)


@pytest.mark.long
def test_position_and_velocity_controllets_move_arm_within_limits(rig):
    rig.arm.send()
    move(rig, STEP)
    rig.cell.switch(["ur/pose"], strictness="force_auto")
    here = rig.cell.pose("ur")
    goal = Pose(here.position + [0.0, 0.05, 0.05], here.rotation)
    rig.cell.set_target("ur", goal)
    rig.until(lambda: rig.cell.pose("ur").distance(goal)[0] < 1e-3)
    start_rotation(rig)
    rig.cell.hold()
    rest(rig)
    assert not rig.texts()
    assert rig.arm.send()["refused"] == 0


def test_command_jump_of_controllet_is_braked(rig):
    rig.cell.switch(["ur/bad"])
    rig.cell.set_parameters("ur/bad", {"rate": 0.5})
    rig.until(lambda: max(map(abs, rig.arm.send()["dq"])) > 0.45)
    rig.cell.set_parameters("ur/bad", {"fault": "jump"})
    wait_until(lambda: rig.fault() == "command_jump", what=lambda: str(rig.texts()))
    rest(rig)
    assert rig.arm.send()["fastest"] < 1.0
    rig.cell.set_parameters("ur/bad", {"fault": "none", "rate": 0.0})


def test_controller_manager_stopped_in_motion_continues_at_rest(rig):
    start_rotation(rig)
    os.kill(rig.arm.process.pid, signal.SIGSTOP)
    try:
        is_stopped(rig, "robot_silent")
    finally:
        os.kill(rig.arm.process.pid, signal.SIGCONT)
    rest(rig)
    rig.recover()
    move(rig, -0.5 * STEP)


def test_returning_process_gets_no_command_until_recovery(rig):
    """The old position was sent, independent of the position of the returning arm. An arm that
    is away stays at its last command; braking from there 0.4 s later would start with the old
    velocity.
    """
    start_rotation(rig)
    stands = rig.arm.send(spoil="nothing")
    is_stopped(rig, "robot_silent")
    assert rig.arm.send()["commands"] - stands["commands"] <= 1  # one command may be in transit
    relocated = q_of(rig) + RELOCATION
    rig.arm.send(put=relocated.tolist())
    rig.arm.send(spoil="")
    before = rig.arm.send()
    wait_until(lambda: rig.arm.send()["time"] > before["time"] + 0.5, what=lambda: "states")
    after = rig.arm.send()
    assert after["commands"] == before["commands"]
    assert np.abs(q_of(rig) - relocated).max() < 1e-9
    rig.recover()
    rest(rig)
    assert np.abs(q_of(rig) - relocated).max() < 1e-3
    move(rig, -0.5 * STEP)


@pytest.mark.parametrize("spoil", ["nan", "nothing"])
def test_missing_states_brake_arm(rig, spoil):
    start_rotation(rig)
    rig.arm.send(spoil=spoil)
    wait_until(rig.fault, what=lambda: str(rig.arm.send()))
    rest(rig)
    rig.arm.send(spoil="")
    rig.recover()
    move(rig, -0.5 * STEP)


def test_killed_driver_leaves_arm_at_last_command(rig):
    start_rotation(rig)
    os.kill(rig.driver(), signal.SIGKILL)
    is_stopped(rig, "driver_died")
    rest(rig)
    rig.recover()
    move(rig, 0.5 * STEP)


@pytest.mark.slow
def test_killed_loop_leaves_arm_braked_within_limits(rig_of):
    settings = {"command_type": "joint_state"}
    made = {"interface": "position", "watchdog": False, "heavy": False, **settings}
    rig = rig_of(settings, LAWS, **made).start()
    try:
        start_rotation(rig)
        rig.arm.send()
        os.kill(rig.cell.loop_pid, signal.SIGKILL)
        there = rest(rig)
        since = rig.arm.send()["time"]
        wait_until(lambda: rig.arm.send()["time"] > since + 0.5, what=lambda: str(rig.arm.send()))
        assert (q_of(rig) == there).all()
    finally:
        rig.close()


def arms(interface, **arm):
    return {
        "cell": {"rate": 500},
        "arms": {
            "ur": {"backend": "ros2_control", "model": "ur5e", **arm,
                   "ros2_control": {"command_interface": interface}},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("interface", "law", "kind"),
    [("position", "joint_impedance", "effort"), ("effort", "joint_position", "position")],
)
def test_controllets_of_other_interface_are_refused_with_cell_file(interface, law, kind):
    with pytest.raises(ConfigurationError, match=rf"{law} .*\b{kind}\b.*\bur\b"):
        CellConfig.from_dict({**arms(interface), "controllets": {"law": {"type": law}}})


def test_unsupported_interface_is_refused():
    with pytest.raises(ConfigurationError, match=r"interfaces: .*\beffort\b.*\bposition, vel"):
        CellConfig.from_dict(arms("position", interfaces=["effort"]))
