# SPDX-License-Identifier: Apache-2.0
"""Time of the node: system time, or /clock that may be late, stop or go back."""

from __future__ import annotations

import time

import pytest
from processes import let_pass
from rclpy.clock import ROSClock
from rclpy.clock_type import ClockType
from rclpy.time import Time

from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.node.clock import CLOCK_TIMEOUT, NodeClock

pytestmark = pytest.mark.inline


@pytest.fixture
def simulated(ros):
    """A clock set by a topic, its setter and the steady time."""
    clock, steady = ROSClock(), [100.0]
    clock._set_ros_time_is_active(True)

    def move(seconds):
        clock.set_ros_time_override(Time(seconds=seconds, clock_type=ClockType.ROS_TIME))

    return NodeClock(clock, lambda: steady[0]), move, steady


def test_system_time_stamps_time_of_measurement(ros):
    clock = NodeClock(ROSClock())
    assert clock.worry() == ""
    assert clock.has_started
    seconds, nanoseconds = clock.stamp(time.monotonic_ns() - 250_000_000)
    assert time.time() - (seconds + nanoseconds * 1e-9) == pytest.approx(0.25, abs=0.05)


def test_stamp_went_back_after_delay_between_clock_reads(ros):
    """A delay on a busy machine put the stamp before that of the previous state."""

    class DelayedClock:
        def __init__(self):
            self.clock, self.calls = ROSClock(), 0

        def __getattr__(self, name):
            return getattr(self.clock, name)

        def now(self):
            found = self.clock.now()
            self.calls += 1
            let_pass(0.05 if self.calls == 2 else 0.0)
            return found

    clock = NodeClock(DelayedClock())
    first, second = (clock.stamp(time.monotonic_ns()) for _ in range(2))
    assert first < second


def test_time_before_first_clock_message_is_rejected(simulated):
    clock, move, _ = simulated
    assert not clock.has_started
    with pytest.raises(TargetRejected, match="/clock"):
        clock.check()
    move(5.0)
    assert clock.has_started
    clock.check()


def test_stopped_clock_is_rejected_and_reset_clock_is_accepted(simulated):
    clock, move, steady = simulated
    for now in (5.0, 5.1, 5.2, 0.5, 0.6):  # as in a reset of the simulation
        move(now)
        clock.check()
        steady[0] += 0.9
    steady[0] += CLOCK_TIMEOUT
    with pytest.raises(TargetRejected, match=r"/clock .*\b1\.9 s"):
        clock.check()
    move(0.7)
    clock.check()


def test_topic_stamps_do_not_go_back_between_clock_steps(simulated):
    """The age of a measurement in system time was subtracted."""
    clock, move, _ = simulated
    move(7.0)
    stamps = [clock.stamp(time.monotonic_ns() - age) for age in (0, 900_000, 100)]
    assert stamps == [(7, 0)] * 3
