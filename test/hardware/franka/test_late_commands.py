# SPDX-License-Identifier: Apache-2.0
"""Differences of commanded positions with lost, late, or too late commands."""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from processes import let_pass

from multipanda_py.hardware.driver.memory import POSITIONS, DriverWord
from multipanda_py.hardware.franka.driver import StateAge
from multipanda_py.hardware.franka.position_control import JointMode, PositionControl
from multipanda_py.hardware.franka.settings import FrankaSettings, driver_settings
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.robots import READY_CONFIGURATION, ArmDescription
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = pytest.mark.inline

PERIOD, CYCLES = 1e-3, 800
ON_TIME, LOST, TAKEN_LATE, OLD = range(4)


class RunFinished(Exception):
    pass


class Robot:
    """Bridge missing commands with constant acceleration and check command differences.

    A command of a cycle TAKEN_LATE or OLD arrives after the robot has bridged it and published
    the result. The robot then reverts the bridged command and applies the late one. A client
    detects an OLD state by its age.
    """

    def __init__(self, fates):
        self.fates, self.cycle = fates, -1
        self.q, self.dq, self.ddq = READY_CONFIGURATION.copy(), np.zeros(7), np.zeros(7)
        self.pending, self.begun, self.lost = None, False, 0
        self.acceleration = self.jerk = 0.0

    def age(self):
        return 2_000_000 if self.fates[self.cycle] == OLD else 100_000

    def take(self, q):
        rate = (q - self.q) / PERIOD
        change = (rate - self.dq) / PERIOD
        if not self.begun:
            rate, change = np.zeros(7), np.zeros(7)
        self.acceleration = max(self.acceleration, np.abs(change).max())
        self.jerk = max(self.jerk, np.abs(change - self.ddq).max() / PERIOD)
        self.q, self.dq, self.ddq, self.begun = q, rate, change, True

    def bridge(self):
        self.lost += 1
        self.dq = self.dq + PERIOD * self.ddq
        self.q = self.q + PERIOD * self.dq

    def readOnce(self):  # noqa: N802
        fate, q = self.fates[self.cycle], self.pending
        before = self.q, self.dq, self.ddq
        if q is not None and fate == ON_TIME:
            self.take(q)
        elif self.begun:
            self.bridge()
        state = self.state()
        if q is not None and fate in (TAKEN_LATE, OLD):
            self.q, self.dq, self.ddq = before
            self.take(q)
        self.pending = None
        self.cycle += 1
        if self.cycle == CYCLES:
            raise RunFinished
        return state, None

    def writeOnce(self, q):  # noqa: N802
        self.pending = q

    def state(self):
        seconds = PERIOD * (self.cycle + 2)
        reported = {name: getattr(self, name).astype(np.float32).astype(float).tolist()
                    for name in ("q", "dq", "ddq")}  # fmt: skip
        return SimpleNamespace(
            time=SimpleNamespace(to_sec=lambda: seconds), q=reported["q"], dq=reported["dq"],
            q_d=reported["q"], dq_d=reported["dq"], ddq_d=reported["ddq"],
            tau_J=[0.0] * 7, tau_ext_hat_filtered=[0.0] * 7,
        )  # fmt: skip


class Loop:
    """Command alternating velocities with the maximum acceleration of the robot."""

    def __init__(self):
        self.words = defaultdict(int, {DriverWord.ENABLED: POSITIONS})
        self._motion, self._cycle = MotionLimiter(FR3_LIMITS, PERIOD), 0
        self._motion.start(READY_CONFIGURATION)

    def publish(self, *state):
        self._cycle += 1
        return self._cycle

    def wait(self, number, until):
        self._motion.follow_rate(np.full(7, 0.4 * (-1.0) ** (number // 120)))
        return tuple(self._motion.q)

    def start_motion(self, kind):
        assert kind == POSITIONS

    def report_busy(self, seconds):
        pass

    def ended(self):
        return False

    def has_lines(self):
        return False


def run(fates):
    """Run a motion and return the robot."""
    robot, loop = Robot(fates), Loop()
    description = ArmDescription("arm", "fr3", hand=False)
    settings = driver_settings("192.0.2.1", FrankaSettings(), description, [0])
    mode = JointMode("position", lambda *_: None, lambda _, q: q.copy())
    with pytest.raises(RunFinished):
        PositionControl(loop, settings, POSITIONS, mode, robot.age).run(robot)
    return robot


@pytest.mark.robustness
@pytest.mark.parametrize("fate", [LOST, TAKEN_LATE, OLD])
def test_command_applied_after_bridging_doubled_acceleration_and_jerk(fate, episodes):
    """The values were 14 rad/s^2 (limit 10) and 9 874 rad/s^3 (limit 5 000)."""
    for seed in range(episodes(3, 100)):
        chance = np.random.default_rng(seed)
        fates = np.where(chance.random(CYCLES + 1) < 0.04, fate, ON_TIME)
        robot = run(fates)
        assert robot.acceleration <= FR3_LIMITS.acceleration.min(), seed
        assert robot.jerk <= FR3_LIMITS.jerk.min(), seed
        assert 0 < robot.lost <= 2 * (fates == fate).sum()


def test_timely_commands_are_all_sent():
    robot = run(np.full(CYCLES + 1, ON_TIME))
    assert robot.lost == 0
    assert 8.0 < robot.acceleration < 10.0
    assert 3000.0 < robot.jerk < 4500.0


def test_age_of_state_counts_from_its_arrival():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        client.bind(("127.0.0.1", 0))
        age = StateAge(client.fileno())
        for wait in (0.02, 0.05):
            sent = time.time_ns()
            robot.sendto(b"state", client.getsockname())
            let_pass(wait)
            client.recv(16)
            assert wait * 1e9 <= age() <= time.time_ns() - sent


def test_unknown_age_is_zero():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        assert StateAge(other.fileno())() == 0
    assert StateAge(None)() == 0
