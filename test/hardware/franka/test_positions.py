# SPDX-License-Identifier: Apache-2.0
"""Joint control of a simulated robot by a cell: motions, switches, faults, lost commands."""

from __future__ import annotations

import os
import signal
import uuid

import numpy as np
import pytest
from processes import children, wait_until
from robots import unused_address

from multipanda_py.pose import Pose
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.usefixtures("needs_pylibfranka"), pytest.mark.slow]

LAWS = {
    "impedance": {"type": "joint_impedance", "features": ["coriolis"]},
    "position": {"type": "joint_position", "features": [""], "params": {"velocity_scaling": 1.0}},
    "odd": {"type": "unsteady_position"},
    "pose": {"type": "cartesian_pose", "features": [""]},
    "rates": {"type": "unsteady_velocity"},
    "rate": {"type": "joint_rate", "features": [""], "params": {"timeout": 10.0}},
}
STEP = np.array([0.2, 0.15, -0.2, 0.15, 0.2, -0.2, 0.3])


def cell_on(address, franka):
    arm = {"backend": "franka", "robot_ip": address, "gripper": False, "franka": franka}
    return simple_cell(
        {"left": arm}, LAWS, ["left/impedance"], placement="process",
        name=f"rig_{uuid.uuid4().hex[:10]}", realtime={"priority": 0, "cpu": -2},
        heartbeat_timeout=5.0,
    )  # fmt: skip


class Rig:
    """A robot in lockstep and its cell."""

    def __init__(self, **franka):
        self._franka = {"answer_budget": 0.4, "priority": 0, **franka}

    def __enter__(self):
        self.ip = unused_address()
        self.sim = FciSim([self.ip], lockstep=True)
        self.sim.start()
        self.cell = cell_on(self.ip, self._franka)
        self.cell.start()
        self.drivers = children(self.cell.loop_pid)
        self.until(lambda: self.stats()["mode"] == "move", "torque")
        return self

    def __exit__(self, *error):
        try:
            self.cell.close()
        finally:
            self.sim.close()

    def stats(self):
        return self.sim.admin(self.ip, "stats")

    def until(self, condition, what, timeout=15.0):
        wait_until(condition, timeout, lambda: f"{what}; {self.cell.events()}")

    def stop_loop(self):
        """Stop the loop until the driver has braked the robot and reports the reason."""
        os.kill(self.cell.loop_pid, signal.SIGSTOP)
        try:
            self.until(lambda: self.stats()["mode"] == "idle", "end of the motion")
            assert self.stats()["errors"] == []
            self.until(lambda: np.abs(self.stats()["dq"]).max() < 1e-3, "rest")
        finally:
            os.kill(self.cell.loop_pid, signal.SIGCONT)
        self.until(lambda: self.fault() == "arm_stopped", "fault")
        assert any("loop_silent" in event.text for event in self.cell.events())

    def switch(self, name):
        self.cell.switch([f"left/{name}"], strictness="FORCE_AUTO")

    def reach(self, goal):
        self.cell.set_target("left", q=goal)
        self.until(lambda: self.is_at(goal), f"at {goal}")

    def is_at(self, goal):
        state = self.cell.state("left")
        return np.abs(state.q - goal).max() < 5e-3 and np.abs(state.dq).max() < 5e-3

    def integration_error(self):
        """Return the difference of integrated velocities of the robot and positions of the loop.

        It is exact only at rest because the robot reports its position with seven digits.
        """
        row = self.cell.latest_record()["arms"][0]
        assert not row["joint_command"][1].any()
        return np.abs(self.stats()["q_d"] - row["joint_command"][0]).max()

    def fault(self):
        return self.cell.state("left").fault

    def recover(self):
        self.cell.recover(["left"])


@pytest.fixture
def rig():
    with Rig() as made:
        yield made


@pytest.mark.long
@pytest.mark.clock
def test_switches_between_torques_and_positions_lose_no_command(rig):
    """The robot checks velocity, acceleration and jerk of every command."""
    start = rig.cell.state("left").q
    for goal in (start + STEP, start):
        rig.switch("position")
        rig.reach(goal)
        rig.switch("impedance")
        rig.reach(goal - 0.05)
        rig.reach(goal)
    assert rig.fault() == ""
    assert rig.stats()["errors"] == []
    assert rig.stats()["lost"] == 0


@pytest.mark.long
@pytest.mark.clock
def test_velocity_steps_and_failing_controllet_end_in_braked_arm(rig):
    for law in ("odd", "rates"):
        rig.switch(law)
        for rate in (0.4, -0.4, 0.4):
            at = rig.cell.state("left").time
            rig.cell.set_parameters(f"left/{law}", {"rate": rate, "fault": "none"})
            rig.until(lambda at=at: rig.cell.state("left").time > at + 0.25, "time")
        rig.cell.set_parameters(f"left/{law}", {"fault": "nan"})
        rig.until(lambda: rig.fault() == "non_finite_command", "fault")
        rig.until(lambda: np.abs(rig.cell.state("left").dq).max() < 1e-3, "rest")
        assert rig.stats()["errors"] == []
        assert rig.stats()["mode"] == "move"  # the robot still executes commands, at rest
        rig.cell.set_parameters(f"left/{law}", {"fault": "none", "rate": 0.0})
        rig.recover()
    rig.switch("impedance")
    assert rig.cell.state("left").interface == "effort"


@pytest.mark.long
@pytest.mark.clock
def test_pose_target_is_reached_by_position_commands(rig):
    rig.switch("pose")
    here = rig.cell.pose("left")
    goal = Pose(here.position + [0.05, 0.08, -0.06], here.rotation)
    rig.cell.set_target("left", goal)
    rig.until(
        lambda: np.linalg.norm(rig.cell.pose("left").position - goal.position) < 2e-3, "pose"
    )
    assert rig.stats()["errors"] == []
    assert rig.fault() == ""


@pytest.mark.clock
def test_motion_after_reflex_starts_at_current_position(rig):
    rig.switch("position")
    goal = rig.cell.state("left").q + STEP
    rig.reach(goal)
    rig.sim.admin(rig.ip, "reflex")
    rig.until(lambda: rig.fault() == "arm_stopped", "reflex")
    rig.recover()
    here = rig.cell.state("left").q
    rig.switch("position")
    rig.reach(here - 0.1)
    assert rig.stats()["errors"] == []


@pytest.mark.long
@pytest.mark.clock
def test_silent_loop_leaves_braked_arm(rig):
    """The driver brakes within the limits and ends the motion without a reflex."""
    rig.switch("odd")
    rig.until(lambda: rig.stats()["mode"] == "move", "positions")
    rig.cell.set_parameters("left/odd", {"rate": 0.3})
    rig.until(lambda: np.abs(rig.cell.state("left").dq).max() > 0.2, "motion")
    rig.stop_loop()


@pytest.mark.long
@pytest.mark.clock
def test_killed_driver_restarts_with_same_interface(rig):
    rig.switch("position")
    rig.until(lambda: rig.stats()["mode"] == "move", "positions")
    os.kill(rig.drivers[0], signal.SIGKILL)
    rig.until(lambda: rig.fault() == "arm_stopped", "driver_died")
    rig.recover()
    assert rig.cell.state("left").interface == "position"
    rig.switch("position")
    rig.reach(rig.cell.state("left").q + 0.1)


SLOW = """
import sys, time
if "franka" in sys.argv[0]:
    time.sleep(2.5)
    print("slow", file=sys.stderr)
sys.path.remove({path!r})
del sys.modules["ruckig"]
import ruckig
"""


@pytest.mark.long
def test_slow_first_switch_to_positions_was_taken_for_silence(tmp_path, monkeypatch, capfd):
    """The import of numpy and ruckig by the driver at this switch may take seconds."""
    (tmp_path / "ruckig.py").write_text(SLOW.format(path=str(tmp_path)))
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    with Rig() as rig:
        rig.switch("position")
        rig.reach(rig.cell.state("left").q + 0.05)
        assert "slow" in capfd.readouterr().err
        assert rig.fault() == ""
        assert rig.stats()["errors"] == []


@pytest.mark.clock
def test_lost_commands_in_motion_are_compensated(rig):
    """The robot continues with constant acceleration; the next command starts from there."""
    rig.switch("position")
    start = rig.cell.state("left").q
    rig.cell.set_target("left", q=start + STEP)
    for speed in (0.3, 0.5, 0.5):
        rig.until(lambda v=speed: np.abs(rig.cell.state("left").dq).max() > v, "motion")
        rig.sim.admin(rig.ip, "drop", commands=4)
    rig.until(lambda: rig.is_at(start + STEP), "goal")
    assert rig.stats()["lost"] >= 4
    assert rig.stats()["errors"] == []
    assert rig.fault() == ""


@pytest.mark.long
@pytest.mark.clock
def test_integrated_velocities_agree_with_positions_of_loop(rig):
    """After switches and lost commands, integration restarts at the executed position."""
    for _ in range(2):
        rig.switch("rate")
        rig.until(lambda: rig.stats()["generator"] == "joint_velocity", "its mode")
        for sign in (1.0, -1.0):
            rig.cell.set_target("left", dq=sign * 0.4 * np.sign(STEP))
            rig.until(lambda s=sign: (s * rig.cell.state("left").dq[0]) > 0.35, "motion")
            rig.sim.admin(rig.ip, "drop", commands=5)
        rig.until(lambda: rig.cell.state("left").dq[0] < -0.39, "motion")
        rig.cell.set_target("left", dq=np.zeros(7))
        rig.until(lambda: np.abs(rig.cell.state("left").dq).max() < 1e-4, "rest")
        assert rig.integration_error() < 2e-6
        rig.switch("position")
        rig.until(lambda: rig.stats()["generator"] == "joint_position", "its mode")
        rig.reach(rig.cell.state("left").q + 0.05)
    assert rig.stats()["lost"] >= 20
    assert rig.stats()["errors"] == []
    assert rig.fault() == ""


@pytest.mark.long
@pytest.mark.clock
def test_correction_after_lost_commands_exceeded_commanded_velocity(rig):
    """A correction of 1 mrad per cycle was taken for a target at 1 rad/s."""
    rig.switch("rate")
    rig.until(lambda: rig.stats()["generator"] == "joint_velocity", "its mode")
    rig.sim.admin(rig.ip, "drop", probability=0.3)
    speeds = []

    def record_until(condition):
        """Record the executed velocities until a condition holds."""

        def is_there():
            speeds.append(np.abs(rig.sim.admin(rig.ip, "state")["dq_d"]).max())
            return condition()

        rig.until(is_there, "condition")

    rig.cell.set_target("left", dq=0.3 * np.sign(STEP))
    at = rig.cell.state("left").time
    record_until(lambda: rig.cell.state("left").time > at + 1.0)
    assert 0.25 < max(speeds) < 0.45, "lost commands continue with the last acceleration"
    rig.cell.set_target("left", dq=np.zeros(7))
    at = rig.cell.state("left").time
    record_until(lambda: rig.cell.state("left").time > at + 0.5)
    speeds.clear()
    record_until(lambda: rig.cell.state("left").time > at + 1.5)
    assert max(speeds) < 0.2, "it stayed at 0.65"
    rig.sim.admin(rig.ip, "heal")
    rig.until(lambda: rig.integration_error() < 2e-6, "the same sums")
    assert rig.stats()["lost"] > 100
    assert rig.stats()["errors"] == []
    assert rig.fault() == ""


@pytest.mark.long
@pytest.mark.clock
def test_robot_reporting_measured_positions_as_q_d_ran_backwards(rig):
    """Corrections of the difference moved joint 7 of franky-sim at up to 1.7 rad/s."""
    rig.switch("rate")
    rig.until(lambda: rig.stats()["generator"] == "joint_velocity", "its mode")
    rig.sim.admin(rig.ip, "report_measured")
    speeds = []
    rig.cell.set_target("left", dq=[0.0] * 6 + [0.2])

    def has_fault():
        speeds.append(np.abs(rig.stats()["dq"]).max())
        return rig.fault() == "arm_stopped"

    rig.until(has_fault, "fault")
    rig.until(lambda: np.abs(rig.stats()["dq"]).max() < 1e-3, "rest")
    assert max(speeds) < 0.25
    reasons = [event.text for event in rig.cell.events() if event.event.name == "ARM_STOPPED"]
    assert reasons[0].startswith("command_not_followed"), reasons
    assert rig.stats()["errors"] == []


@pytest.mark.long
@pytest.mark.clock
def test_silent_loop_in_velocity_mode_leaves_braked_arm(rig):
    rig.switch("rate")
    rig.cell.set_target("left", dq=0.3 * np.ones(7))
    rig.until(lambda: np.abs(rig.cell.state("left").dq).max() > 0.25, "motion")
    rig.stop_loop()


@pytest.mark.long
@pytest.mark.clock
def test_velocity_motion_after_reflex_starts_at_rest(rig):
    rig.switch("rate")
    rig.cell.set_target("left", dq=0.3 * np.ones(7))
    rig.until(lambda: np.abs(rig.cell.state("left").dq).max() > 0.25, "motion")
    rig.sim.admin(rig.ip, "reflex")
    rig.until(lambda: rig.fault() == "arm_stopped", "reflex")
    rig.until(lambda: np.abs(rig.stats()["dq"]).max() < 1e-3, "rest")
    here = np.array(rig.stats()["q"])
    rig.recover()
    rig.switch("rate")
    rig.until(lambda: rig.stats()["generator"] == "joint_velocity", "its mode")
    assert np.abs(rig.stats()["q"] - here).max() < 1e-3
    rig.cell.set_target("left", dq=-0.3 * np.ones(7))
    rig.until(lambda: rig.cell.state("left").dq[0] < -0.25, "motion")
    assert rig.stats()["errors"] == []


@pytest.mark.long
def test_requested_cartesian_impedance_tracks_joint_motions():
    with Rig(motion_controller="cartesian_impedance") as rig:
        for law, generator in (("position", "joint_position"), ("rate", "joint_velocity")):
            rig.switch(law)
            rig.until(lambda g=generator: rig.stats()["generator"] == g, "its mode")
            assert rig.stats()["controller"] == "cartesian_impedance"
        rig.switch("impedance")
        rig.until(lambda: rig.stats()["controller"] == "external", "torques")
        assert rig.fault() == ""
