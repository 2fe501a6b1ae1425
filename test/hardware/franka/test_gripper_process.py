# SPDX-License-Identifier: Apache-2.0
"""Gripper of a real arm: process with pylibfranka, connected to a simulated robot."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import TIMEOUT_SCALE, wait_until
from requirements import needs_pylibfranka

from multipanda_py.exceptions import LoopTimeout, TargetRejected
from multipanda_py.hardware.franka.gripper import FrankaGripper
from multipanda_py.hardware.franka.gripper_process import Worker
from multipanda_py.robots.gripper import Outcome
from multipanda_py.simulation.fci import FciSim

_numbers = itertools.count(1)


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def robot():
    pid = os.getpid()
    address = f"127.{1 + pid // 250 % 250}.{1 + pid % 250}.201"
    with FciSim([address]) as sim:
        yield sim, address


class Observed(list):
    """Published widths with their times."""

    def __call__(self, width, is_grasped):
        self.append((time.monotonic(), width, is_grasped))


@pytest.fixture
def device(robot):
    """Return an open gripper without object and its published widths."""
    sim, address = robot
    sim.admin(address, "object", width=0.0)
    observed = Observed()
    gripper = FrankaGripper("left", address, observed)
    try:
        wait_until(lambda: not gripper.state().problem)
        assert gripper.move(0.08, 0.2).wait().succeeded
        yield gripper, observed
    finally:
        gripper.close()
    assert not is_alive(gripper.pid)


@pytest.fixture
def admin(robot):
    """Return a function for the test commands of the robot."""
    sim, address = robot
    return lambda command, **arguments: sim.admin(address, command, **arguments)


@pytest.mark.clock
@needs_pylibfranka
def test_homing_motion_and_state_rate_of_gripper(device):
    gripper, observed = device
    assert gripper.homing().wait().succeeded
    assert gripper.state().max_width == pytest.approx(0.08)
    result = gripper.move(0.03, 0.2).wait()
    assert result.succeeded
    assert result.width == pytest.approx(0.03)
    observed.clear()
    half_a_second = pytest.approx(0.5, rel=0.2)
    wait_until(  # other processes may delay some states
        lambda: any(
            later[0] - one[0] == half_a_second for one, later in zip(observed, observed[10:])
        )
    )
    assert observed[-1][1] == pytest.approx(0.03)
    assert gripper.state().age < 0.2


@needs_pylibfranka
def test_grasp_success_depends_on_width_and_tolerance(device, admin):
    gripper, observed = device
    missed = gripper.grasp(0.05, 0.2).wait()
    assert missed.outcome is Outcome.UNSUCCESSFUL
    assert not gripper.state().is_grasped
    assert gripper.move(0.08, 0.2).wait().succeeded
    admin("object", width=0.05)
    assert gripper.grasp(0.052, 0.2, 20.0, 0.003, 0.0).wait().succeeded
    assert gripper.state().is_grasped
    assert observed[-1][1:] == (pytest.approx(0.05), True)
    assert gripper.move(0.08, 0.2).wait().succeeded
    assert gripper.grasp(0.056, 0.2, 20.0, 0.003, 0.0).wait().outcome is Outcome.UNSUCCESSFUL


@needs_pylibfranka
def test_stop_interrupts_blocking_motion(device, admin):
    gripper, _ = device
    motion = gripper.move(0.0, 0.01)
    wait_until(lambda: admin("stats")["width"] < 0.079)
    assert gripper.state().is_moving
    began = time.monotonic()
    assert gripper.stop().wait().succeeded
    assert time.monotonic() - began < 1.0
    assert motion.result.outcome is Outcome.ABORTED
    assert "stopped" in motion.result.text
    width = admin("stats")["width"]
    assert width > 0.06
    cycles = admin("stats")["message_id"]
    wait_until(lambda: admin("stats")["message_id"] > cycles + 200)
    assert admin("stats")["width"] == width


@needs_pylibfranka
def test_newer_command_aborts_older_one(device):
    gripper, _ = device
    older = gripper.move(0.0, 0.01)
    newer = gripper.move(0.06, 0.2)
    assert newer.wait().succeeded
    assert older.result.outcome is Outcome.ABORTED
    assert "newer command" in older.result.text


@needs_pylibfranka
def test_killed_process_is_reported_and_restarted_by_next_command(device):
    gripper, _ = device
    first = gripper.pid
    wait_until(lambda: len(children(first)) == 1)
    worker = children(first)[0]
    motion = gripper.move(0.0, 0.01)
    os.kill(first, signal.SIGKILL)
    result = motion.wait()
    assert result.outcome is Outcome.FAILED
    assert "signal 9" in result.text
    wait_until(lambda: not is_alive(worker))
    assert "killed by signal 9" in gripper.state().problem
    assert gripper.move(0.07, 0.2).wait().succeeded
    assert gripper.pid != first
    assert gripper.state().problem == ""


@needs_pylibfranka
def test_stopped_process_never_answered_and_moved_fingers_later(robot, admin):
    gripper = FrankaGripper("left", robot[1], heartbeat_timeout=1.0)
    try:
        wait_until(lambda: not gripper.state().problem)
        width, pid = admin("stats")["width"], gripper.pid
        os.kill(pid, signal.SIGSTOP)
        result = gripper.move(0.08 - width).wait(10.0 * TIMEOUT_SCALE)
        assert result.outcome is Outcome.FAILED
        assert " 1 s " in result.text
        assert gripper.state().problem
        assert not is_alive(pid)  # no process can execute the command later
        assert admin("stats")["width"] == width
        assert gripper.move(0.07, 0.2).wait().succeeded
        assert gripper.state().problem == ""
    finally:
        gripper.close()


@needs_pylibfranka
def test_rebooted_robot_is_reported_and_reconnected_by_next_command(device, admin):
    gripper, _ = device
    admin("reboot", seconds=0.3)
    wait_until(lambda: gripper.state().problem)
    assert "gripper of left" in gripper.state().problem
    wait_until(lambda: admin("stats")["running"])
    # A connection during the start of the robot times out after a second.
    results = [gripper.move(0.07, 0.2).wait()]
    if not results[0].succeeded:
        results.append(gripper.move(0.07, 0.2).wait())
    assert results[-1].succeeded, results
    assert gripper.state().problem == ""


@needs_pylibfranka
def test_closing_during_motion_ends_processes(device):
    gripper, _ = device
    wait_until(lambda: len(children(gripper.pid)) == 1)
    processes = [gripper.pid, *children(gripper.pid)]
    motion = gripper.move(0.0, 0.01)
    with pytest.raises(LoopTimeout):
        motion.wait(0.1)
    gripper.close()
    wait_until(lambda: not any(is_alive(pid) for pid in processes))
    assert motion.result.outcome is Outcome.FAILED


@needs_pylibfranka
def test_real_and_simulated_grippers_in_one_cell(robot, make_cell):
    """The state of each arm has the measured width, for real and simulated grippers."""
    sim, address = robot
    sim.admin(address, "object", width=0.0)
    cell = make_cell(
        arms={"real": {"backend": "franka", "robot_ip": address}, "sim": {"position": [0, 1, 0]}},
        controllets={}, placement="process", name=f"test_gripper_{os.getpid()}",
    )  # fmt: skip
    motions = [cell.gripper("real").move(0.05, 0.2), cell.gripper("sim").move(0.03, 0.2)]
    assert all(motion.wait().succeeded for motion in motions)
    cell.wait(
        lambda: abs(cell.state("real").finger_positions.sum() - 0.05) < 1e-6, 5.0, "the width"
    )
    assert cell.state("sim").finger_positions.sum() == pytest.approx(0.03, abs=1e-4)
    process = cell.gripper("real").pid
    cell.close()
    wait_until(lambda: not is_alive(process))


@pytest.mark.slow
@needs_pylibfranka
def test_gripper_of_real_arm_moved_while_loop_was_stopped(robot, make_cell):
    sim, address = robot
    sim.admin(address, "object", width=0.0)
    cell = make_cell(
        arms={"real": {"backend": "franka", "robot_ip": address,
                       "franka": {"answer_budget": 0.4, "priority": 0}},
              "sim": {"position": [0, 1, 0]}},
        controllets={}, placement="process", name=f"test_gripper_still_{os.getpid()}",
        realtime={"priority": 0, "cpu": -2}, heartbeat_timeout=10.0,
    )  # fmt: skip
    two_grippers = [cell.gripper(arm) for arm in cell.arms]
    for device in two_grippers:
        assert device.move(0.04, 0.2).wait().succeeded
    before = sim.admin(address, "stats")["width"]
    os.kill(cell.loop_pid, signal.SIGSTOP)
    try:
        wait_until(cell.stall_reason)
        for device in two_grippers:
            for command in (device.homing, lambda device=device: device.move(0.06),
                            lambda device=device: device.grasp(0.01)):  # fmt: skip
                with pytest.raises(TargetRejected, match=r"\b\d+\.\d\d s\b"):
                    command()
        assert two_grippers[0].stop().wait().succeeded
    finally:
        os.kill(cell.loop_pid, signal.SIGCONT)
    wait_until(lambda: not cell.stall_reason())
    assert sim.admin(address, "stats")["width"] == pytest.approx(before, abs=1e-3)
    assert two_grippers[0].move(0.06, 0.2).wait().succeeded


@needs_pylibfranka
def test_absent_robot_is_reported():
    gripper = FrankaGripper("left", f"127.0.77.{next(_numbers)}")
    try:
        result = gripper.move(0.05).wait()
        assert result.outcome is Outcome.FAILED
        assert "127.0.77" in result.text
        assert "refused" in result.text.lower()
    finally:
        gripper.close()


@pytest.mark.skipif(
    importlib.util.find_spec("pylibfranka") is not None, reason="pylibfranka is installed"
)
def test_missing_library_is_reported_with_install_command():
    gripper = FrankaGripper("left", "127.0.0.1")
    try:
        result = gripper.move(0.05).wait()
        assert result.outcome is Outcome.FAILED
        assert "pip install 'multipanda_py[real]'" in result.text
    finally:
        gripper.close()


@needs_pylibfranka
def test_gripper_process_with_killed_owner_ended_with_traceback(robot):
    """Child processes inherit the blocked SIGPIPE of the owner, so that a write raises."""
    _, address = robot
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    try:
        device = subprocess.Popen(
            [sys.executable, "-m", "multipanda_py.hardware.franka.gripper_process", address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    with device:
        assert device.stdout.readline()
        device.stdout.close()
        assert device.stderr.read() == b""
        device.stdin.close()
        assert device.wait(10.0 * TIMEOUT_SCALE) == 0


def test_command_to_ended_worker_raised_broken_pipe():
    """The supervisor reads the end of the worker, and reports it as the result of the command."""

    def refuse(address):
        raise RuntimeError(f"{address} refused")

    library = SimpleNamespace(Gripper=refuse, NetworkException=OSError)
    worker = Worker(library, "127.0.0.1")
    try:
        messages = b"".join(iter(lambda: os.read(worker.fd, 4096), b""))
        assert b"127.0.0.1 refused" in messages
        worker.send({"number": 1, "action": "move", "width": 0.05, "speed": 0.1})
        assert worker.number == 1
    finally:
        worker.kill()
