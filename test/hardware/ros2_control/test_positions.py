# SPDX-License-Identifier: Apache-2.0
"""A UR5e behind topics that takes positions: the other side keeps the last one."""

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
LED = np.array([0.4, -0.4, -0.4, 0.4, 0.4, 0.4])  # up: near the floor no motion would begin


@pytest.fixture(scope="module")
def shared(rig_of):
    made = rig_of(laws=LAWS, interface="position", watchdog=False, heavy=False)
    yield made.start()
    made.close()


@pytest.fixture
def rig(shared):
    """The rig without a fault and at rest."""
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
    """Wait until its commands stand still; return where."""
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


def turn(rig):
    """Have joint 1 move at 0.5 rad/s."""
    rig.cell.switch(["ur/rates"], strictness="force_auto")
    rig.cell.set_target("ur", dq=[-0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    rig.until(lambda: rig.arm.send()["dq"][0] < -0.45)


@pytest.mark.long
def test_laws_of_positions_and_velocities_move_it_within_its_limits(rig):
    rig.arm.send()
    move(rig, STEP)
    rig.cell.switch(["ur/pose"], strictness="force_auto")
    here = rig.cell.pose("ur")
    goal = Pose(here.position + [0.0, 0.05, 0.05], here.rotation)
    rig.cell.set_target("ur", goal)
    rig.until(lambda: rig.cell.pose("ur").distance(goal)[0] < 1e-3)
    turn(rig)
    rig.cell.hold()
    rest(rig)
    assert not rig.texts()
    assert rig.arm.send()["refused"] == 0


def test_a_law_with_a_jump_is_braked(rig):
    rig.cell.switch(["ur/bad"])
    rig.cell.set_parameters("ur/bad", {"rate": 0.5})
    rig.until(lambda: max(map(abs, rig.arm.send()["dq"])) > 0.45)
    rig.cell.set_parameters("ur/bad", {"fault": "jump"})
    wait_until(lambda: rig.fault() == "command_jump", what=lambda: str(rig.texts()))
    rest(rig)
    assert rig.arm.send()["fastest"] < 1.0
    rig.cell.set_parameters("ur/bad", {"fault": "none", "rate": 0.0})


def test_a_controller_manager_that_stopped_in_motion_finds_a_command_at_rest(rig):
    turn(rig)
    os.kill(rig.arm.process.pid, signal.SIGSTOP)
    try:
        is_stopped(rig, "robot_silent")
    finally:
        os.kill(rig.arm.process.pid, signal.SIGCONT)
    rest(rig)
    rig.recover()
    move(rig, -0.5 * STEP)


def test_a_side_that_was_away_is_told_nothing_until_a_motion_begins_where_its_arm_is(rig):
    """It was told the position of before, wherever its arm was when it came back.

    While it is away it stands where it was told to be last: to brake from there, 0.4 s later,
    would begin with the speed of before.
    """
    turn(rig)
    stands = rig.arm.send(spoil="nothing")
    is_stopped(rig, "robot_silent")
    assert rig.arm.send()["commands"] - stands["commands"] <= 1  # which was under way
    led_to = q_of(rig) + LED
    rig.arm.send(put=led_to.tolist())
    rig.arm.send(spoil="")
    before = rig.arm.send()
    wait_until(lambda: rig.arm.send()["time"] > before["time"] + 0.5, what=lambda: "states")
    after = rig.arm.send()
    assert after["commands"] == before["commands"]
    assert np.abs(q_of(rig) - led_to).max() < 1e-9
    rig.recover()
    rest(rig)
    assert np.abs(q_of(rig) - led_to).max() < 1e-3
    move(rig, -0.5 * STEP)


@pytest.mark.parametrize("spoil", ["nan", "nothing"])
def test_without_states_it_brakes(rig, spoil):
    turn(rig)
    rig.arm.send(spoil=spoil)
    wait_until(rig.fault, what=lambda: str(rig.arm.send()))
    rest(rig)
    rig.arm.send(spoil="")
    rig.recover()
    move(rig, -0.5 * STEP)


def test_a_killed_driver_leaves_the_arm_where_it_was_told_last(rig):
    turn(rig)
    os.kill(rig.driver(), signal.SIGKILL)
    is_stopped(rig, "driver_died")
    rest(rig)
    rig.recover()
    move(rig, 0.5 * STEP)


@pytest.mark.slow
def test_a_killed_loop_leaves_the_arm_braked_within_its_limits(rig_of):
    settings = {"command_type": "joint_state"}
    made = {"interface": "position", "watchdog": False, "heavy": False, **settings}
    rig = rig_of(settings, LAWS, **made).start()
    try:
        turn(rig)
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
def test_laws_of_the_other_kind_are_refused_with_the_file(interface, law, kind):
    with pytest.raises(ConfigurationError, match=rf"{law} .*\b{kind}\b.*\bur\b"):
        CellConfig.from_dict({**arms(interface), "controllets": {"law": {"type": law}}})


def test_an_interface_that_the_other_side_has_not_is_refused():
    with pytest.raises(ConfigurationError, match=r"interfaces: .*\beffort\b.*\bposition, vel"):
        CellConfig.from_dict(arms("position", interfaces=["effort"]))
