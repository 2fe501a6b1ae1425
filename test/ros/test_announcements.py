# SPDX-License-Identifier: Apache-2.0
"""Whoever comes anew finds hundreds of services at once, with the buffers that Linux gives."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
import rclpy
from processes import wait_until
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter_client import AsyncParameterClient

from multipanda_py.machine.dds_announcements import _release

NODES = ("multimode_controller", "left/cartesian_impedance_controller", "right/franka",
         "dual_cartesian_impedance_controller")  # fmt: skip
pytestmark = [pytest.mark.sim, pytest.mark.clock]


def own_sockets():
    """Return which sockets this process has."""
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(fd).removeprefix("socket:[").removesuffix("]"))
    return found


def dropped(sockets):
    """Return how many datagrams the kernel has dropped as their buffers were full."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if row[9] in sockets)


@pytest.mark.skipif(
    not any(
        _release(Path(prefix)) >= (3, 2)
        for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    ),
    reason="this middleware paces nothing",
)
def test_a_third_of_what_a_node_announced_was_lost_and_said_again_seconds_later(shared_node):
    """``ros2 param`` waits for five seconds, and gave up where that was too late."""
    before = own_sockets()
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("newcomer", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        clients = [AsyncParameterClient(node, f"/{name}") for name in NODES]
        wait_until(
            lambda: all(client.services_are_ready() for client in clients),
            turn=lambda: executor.spin_once(timeout_sec=0.02),
        )
        new = own_sockets() - before
        assert new
        assert dropped(new) < 30  # it was 200 to 300 of 1000
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
