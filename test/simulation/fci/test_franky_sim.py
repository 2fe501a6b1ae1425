# SPDX-License-Identifier: Apache-2.0
"""The same clients with franky-sim, a third-party simulation.

Agreement shows that clients and simulated robots follow the real protocol.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys

import pytest
from processes import TIMEOUT_SCALE, wait_until

pytestmark = pytest.mark.clock

START_TIMEOUT = 20.0


@pytest.fixture
def franky_sim(new_address):
    """Address of a robot of franky-sim."""
    if importlib.util.find_spec("franky_sim") is None:
        pytest.skip("franky-sim is not installed: pip install franky-sim")
    address = new_address()
    server = subprocess.Popen(
        [sys.executable, "-m", "franky_sim.run_server", "-s", "mujoco", "--hostname", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(address, server)
        yield address
    finally:
        server.kill()
        server.wait()


def wait_for(address, server):
    """Wait until the port is open; disconnect at once, which the server survives."""

    def is_open():
        try:
            socket.create_connection((address, 1338), timeout=1.0).close()
        except OSError:
            return False
        return True

    try:
        wait_until(lambda: server.poll() is not None or is_open(), START_TIMEOUT / TIMEOUT_SCALE)
    except AssertionError:
        pytest.skip("franky-sim did not start")
    if server.poll() is not None:
        pytest.skip(f"franky-sim ended with {server.poll()}")


@pytest.mark.long
def test_clients_give_same_results_with_franky_sim(franky_sim, client):
    address = franky_sim
    assert client("connect_and_read", address=address)["mode"] == "Idle"
    found = client("torque_control", addresses=[address], cycles=300)
    assert found["modes"] == ["Idle"]
    moved = client("joint_motion", address=address)
    assert moved["mode"] == "Idle"
    assert moved["moved"][5] == pytest.approx(0.04, abs=0.01)
