# SPDX-License-Identifier: Apache-2.0
"""What tests with simulated robots share."""

from __future__ import annotations

from itertools import count

from claims import claim

TORQUE_RATE = 1000.0 + 1e-6
"""Largest change of a torque that a robot may have counted, with its rounding [Nm/s]."""
ADDRESSES = 250
"""Addresses of one claimed loopback network."""
_numbers, _networks = count(), []


def unused_address():
    """Return a loopback address that no other test, and no other run of the tests, uses."""
    index = next(_numbers) % ADDRESSES
    if index == 0:
        _networks.append(claim("network", 0, 250 * 250))
    second, third = divmod(_networks[-1], 250)
    return f"127.{1 + second}.{1 + third}.{1 + index}"


def within_bounds(stats, longest_run=19):
    """Check what a robot has counted: repeated torques, and how fast they changed."""
    assert stats["longest_run"] <= longest_run, stats  # cycles, so milliseconds, on one torque
    assert stats["torque_rate_max"] <= TORQUE_RATE, stats
