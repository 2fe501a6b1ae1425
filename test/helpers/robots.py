# SPDX-License-Identifier: Apache-2.0
"""What tests with simulated robots share."""

from __future__ import annotations

import os
from itertools import count

TORQUE_RATE = 1000.0 + 1e-6
"""Largest change of a torque that a robot may have counted, with its rounding [Nm/s]."""
_numbers = count(1)


def unused_address():
    """Return a loopback address that no other test, and no other run of the tests, uses."""
    pid = os.getpid()
    return f"127.{1 + pid // 250 % 250}.{1 + pid % 250}.{next(_numbers)}"


def within_bounds(stats, longest_run=19):
    """Check what a robot has counted: repeated torques, and how fast they changed."""
    assert stats["longest_run"] <= longest_run, stats  # cycles, so milliseconds, on one torque
    assert stats["torque_rate_max"] <= TORQUE_RATE, stats
