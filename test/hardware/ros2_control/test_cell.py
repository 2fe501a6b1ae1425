# SPDX-License-Identifier: Apache-2.0
"""Cell of a UR5e with topics of another process and a simulated UR5e."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
from processes import wait_until
from rclpy.clock import Clock

from multipanda_py.exceptions import MultipandaError, RecoveryFailed
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.topics.state_topic import FreshStates

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.node]


def move(rig, by, tolerance=5e-3):
    """Move the arm with a controllet and check the motion in the other process."""
    rig.cell.switch(activate=["ur/joint"])
    goal = np.array(rig.arm.send()["q"]) + by
    rig.cell.set_target("ur", q=goal)

    def is_there():
        observed = rig.arm.send()
        return (
            np.abs(np.array(observed["q"]) - goal).max() < tolerance
            and max(map(abs, observed["dq"])) < 0.01
        )

    wait_until(is_there, what=lambda: f"{goal} {rig.arm.send()} {rig.texts()}")


def fault_of(rig):
    """Wait for a fault of the arm; return its reported texts."""
    reported = []

    def is_reported():
        reported.extend(rig.texts())
        return reported and rig.fault()

    wait_until(is_reported, what=lambda: str(rig.arm.send()))
    return "\n".join(reported)


def test_arm_reaches_target_and_does_not_sag(rig):
    start = np.array(rig.arm.send()["q"])
    before = rig.arm.send()["commands"]
    wait_until(lambda: rig.arm.send()["commands"] > before + 200, what=lambda: str(rig.arm.send()))
    assert np.abs(np.array(rig.arm.send()["q"]) - start).max() < 2e-3
    np.testing.assert_allclose(rig.cell.state("ur").q, rig.arm.send()["q"], atol=2e-3)
    move(rig, [0.2, 0.1, -0.2, 0.1, 0.2, -0.3])
    assert not rig.texts()
    assert rig.arm.send()["refused"] == 0


def test_stopped_controller_manager_is_reported_and_others_continue(rig):
    """The stopped process keeps its topics but does not publish."""
    rig.cell.switch(activate=["sim/joint"])
    os.kill(rig.arm.process.pid, signal.SIGSTOP)
    try:
        assert "robot_silent: " in fault_of(rig)
        goal = rig.cell.state("sim").q + [0.1, 0.0, 0.0, 0.0, 0.0, 0.1]
        rig.cell.set_target("sim", q=goal)
        wait_until(lambda: np.abs(rig.cell.state("sim").q - goal).max() < 5e-3)
        with pytest.raises(RecoveryFailed, match="robot_silent"):
            rig.cell.recover(["ur"])  # the process is still stopped
    finally:
        os.kill(rig.arm.process.pid, signal.SIGCONT)
    rig.arm.send()
    rig.recover()
    move(rig, [0.0, 0.1, 0.1, 0.0, 0.0, 0.2])
    assert not rig.cell.state("sim").fault


def test_stale_states_of_stopped_controller_manager_were_published_as_new(rig):
    """Only the backend `franka` had a check of the age of states."""
    states, arms = FreshStates(rig.cell, NodeClock(Clock())), list(rig.cell.arms)

    def newest():
        fresh = states.poll()
        return {arms[index] for index in fresh.arms} if fresh else set()

    wait_until(lambda: "ur" in newest())
    os.kill(rig.arm.process.pid, signal.SIGSTOP)
    try:
        fault_of(rig)
        newest()
        end, observed = rig.cell.latest_record()["cycle"] + 200, set()
        wait_until(lambda: observed.update(newest()) or rig.cell.latest_record()["cycle"] > end)
        assert observed == {"sim"}
    finally:
        os.kill(rig.arm.process.pid, signal.SIGCONT)
    rig.arm.send()
    rig.recover()


@pytest.mark.parametrize(
    ("spoil", "pattern"),
    [
        ("nan", "state_invalid: .*nan.*allowed finite numbers"),
        ("short", "state_invalid: .*got 6 velocities of 7 joints"),
        ("names", "state_invalid: .*got joints"),
        ("old", "robot_silent: .*stamps of .* have not changed"),
        ("nothing", "robot_silent: .*no state on"),
    ],
)
def test_invalid_states_are_reported_and_arm_stays(rig, spoil, pattern):
    start = np.array(rig.arm.send()["q"])
    rig.arm.send(spoil=spoil)
    text = fault_of(rig)
    assert re.search(pattern, text), text
    observed = rig.arm.send(spoil="")
    assert np.abs(np.array(observed["q"]) - start).max() < 0.02
    assert observed["fastest"] < 0.2
    rig.recover()
    move(rig, [0.0, 0.0, 0.0, 0.05, 0.0, 0.0])


def test_joint_that_loses_zero_is_reported_and_arm_stays(rig):
    """Joint impedance moved the arm by the offset, and hold moved away from a joint limit."""
    rig.cell.switch(activate=["ur/joint"], strictness="force_auto")
    start = np.array(rig.arm.send()["q"])
    rig.arm.send(zero=0.5)
    text = fault_of(rig)
    assert "state_invalid: " in text
    assert "joint shoulder_pan_joint moved from " in text
    observed = rig.arm.send()
    assert np.abs(np.array(observed["q"]) - start).max() < 0.02
    rig.recover()  # the user confirms the new position by the recovery
    assert abs(rig.cell.state("ur").q[0] - start[0] - 0.5) < 0.02
    rig.arm.send(zero=0.0)
    assert "state_invalid" in fault_of(rig)
    rig.recover()
    move(rig, [0.0, 0.0, 0.0, 0.05, 0.0, 0.0])


def test_arm_with_restarted_clock_is_recovered(rig):
    """States of a restarted simulator were refused until its clock had caught up."""
    rig.arm.send(clock=10)
    try:
        assert "recover" in fault_of(rig)
        rig.recover()
        move(rig, [0.0, 0.0, 0.0, 0.05, 0.0, 0.0])
    finally:
        rig.arm.send(clock=100)
    if rig.fault():
        rig.recover()


def test_push_on_faulted_arm_is_damped_with_gravity_compensation(rig):
    rig.arm.send(spoil="nan")
    fault_of(rig)
    rig.arm.send(spoil="", push=[8.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    wait_until(lambda: rig.arm.send()["fastest"] > 0.2, what=lambda: str(rig.arm.send()))
    observed = rig.arm.send()
    # 8 Nm against the damper: 0.3 of 150 Nm at 3.14 rad/s
    assert observed["fastest"] < 1.05 * 8.0 / (0.3 * 150.0 / np.pi)
    rig.arm.send(push=[0.0] * 6)
    wait_until(lambda: max(map(abs, rig.arm.send()["dq"])) < 0.01)
    rig.recover()


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGSTOP, "driver_silent"), (signal.SIGKILL, "driver_died")]
)
def test_ended_or_stopped_driver_is_reported_and_replaced(rig, number, kind):
    pid = rig.driver()
    os.kill(pid, number)
    assert kind in fault_of(rig)
    rig.recover()
    assert rig.driver() != pid
    move(rig, [0.0, 0.0, 0.05, 0.0, 0.0, 0.1])


def test_load_changes_while_driver_runs(rig):
    rig.cell.hold()
    rig.cell.set_robot_settings("ur", load_mass=1.0, load_com=[0.0, 0.0, 0.1])
    assert rig.cell.robot_settings("ur").load_mass == 1.0
    before = rig.cell.latest_record()["arms"]["tau_gravity"].ravel()[:6].copy()
    rig.cell.set_robot_settings("ur", load_mass=0.0)
    wait_until(
        lambda: (
            np.abs(rig.cell.latest_record()["arms"]["tau_gravity"].ravel()[:6] - before).max()
            > 2.0
        )
    )


@pytest.mark.slow
def test_killed_loop_leaves_braked_and_compensated_arm(make_rig):
    """The other process keeps the last effort; it must not be one of a moving arm."""
    settings = {"command_type": "joint_state", "effort": "torque"}
    rig = make_rig(settings, command_type="joint_state", watchdog=False).start()
    # The brakes are released, and no external force acts.
    wait_until(lambda: np.abs(rig.cell.state("ur").tau_ext).max() < 0.5)
    rig.cell.switch(activate=["ur/joint"])
    start = rig.cell.state("ur").q
    rig.cell.set_target("ur", q=start + [0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
    wait_until(lambda: rig.arm.send()["dq"][0] > 0.1, what=lambda: str(rig.arm.send()))
    os.kill(rig.cell.loop_pid, signal.SIGKILL)
    wait_until(
        lambda: max(map(abs, rig.arm.send()["dq"])) < 0.01, what=lambda: str(rig.arm.send())
    )
    there = np.array(rig.arm.send()["q"])
    since = rig.arm.send()["time"]
    wait_until(lambda: rig.arm.send()["time"] > since + 1.0, what=lambda: str(rig.arm.send()))
    assert np.abs(np.array(rig.arm.send()["q"]) - there).max() < 0.02


def test_wrong_joint_names_prevent_start(make_rig):
    rig = make_rig({"joint_names": "a b c d e wrist_3_joint"})
    with pytest.raises(MultipandaError, match=r"\bur: .*joints"):
        rig.start()
