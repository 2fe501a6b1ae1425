# SPDX-License-Identifier: Apache-2.0
"""Addresses and limits of simulated robots."""

from __future__ import annotations

from itertools import count

from claims import claim

TORQUE_RATE = 1000.0 + 1e-6
"""Maximum torque rate of a command, with rounding [Nm/s]."""
ADDRESSES = 250
"""Number of addresses of a claimed loopback network."""
_numbers, _networks = count(), []


def unused_address():
    """Return a loopback address that is unique over all tests on this machine."""
    index = next(_numbers) % ADDRESSES
    if index == 0:
        _networks.append(claim("network", 0, 250 * 250))
    second, third = divmod(_networks[-1], 250)
    return f"127.{1 + second}.{1 + third}.{1 + index}"


def within_bounds(stats, longest_run=19):
    """Check the counts of a robot: repeated torques and torque rate."""
    assert stats["longest_run"] <= longest_run, stats  # cycles with the same torque
    assert stats["torque_rate_max"] <= TORQUE_RATE, stats
