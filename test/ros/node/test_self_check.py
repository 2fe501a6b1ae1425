# SPDX-License-Identifier: Apache-2.0
"""A node that does not serve its clients, while /diagnostics reported OK for minutes.

A blocked callback, and a participant with blocked receiving threads: in a real node, a signal
handler blocks the thread that receives the signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cell_names import ARMS, IMPEDANCE
from controller_manager_msgs.srv import ListControllers
from diagnostic_msgs.msg import DiagnosticStatus
from processes import wait_until
from std_srvs.srv import Trigger

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks" / "chaos"))
from receivers import deafen

pytestmark = [pytest.mark.clock, pytest.mark.node]

FAULTY = """
import ctypes, os, signal, sys, time
file = sys.argv.pop(1)
libc = ctypes.CDLL(None)
libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.signal(signal.SIGUSR2, ctypes.cast(libc.pause, ctypes.c_void_p))
from multipanda_py.ros.node import node
from multipanda_py.ros.node.graph_watch import GraphWatch
look = GraphWatch._check_manager_names
def look_or_stand(self):
    while os.path.exists(file):
        time.sleep(0.01)
    look(self)
GraphWatch._check_manager_names = look_or_stand
sys.exit(node.main())
"""


@pytest.fixture(scope="module")
def blocker(tmp_path_factory):
    """File that blocks a callback while it exists."""
    return tmp_path_factory.mktemp("blocker") / "file"


@pytest.fixture(scope="module")
def node(node_process, tmp_path_factory, blocker):
    """A node in the namespace /faulty, with threads that tests can block."""
    node = node_process(
        tmp_path_factory.mktemp("node"), remap=("__ns:=/faulty",),
        program=("-c", FAULTY, str(blocker)),
    )  # fmt: skip
    node.wait_for("is active")
    yield node
    assert node.end(timeout=30.0) == 0, node.log


@pytest.fixture
def active(node, client):
    """The node with a controllet on each arm and an answered self-check."""
    manager = "/faulty/controller_manager/list_controllers"
    assert client.call(ListControllers, manager).controller
    assert client.switch(IMPEDANCE, [], strictness=4, namespace="/faulty").ok
    client.until(lambda: level(client, node, "left") == DiagnosticStatus.OK)
    return node


def level(client, node, arm=""):
    return client.diagnosis("/".join(filter(None, (node.name, arm))))[0].level


@pytest.mark.long
def test_diagnostics_reported_ok_during_blocked_callback(active, client, blocker):
    blocker.touch()
    try:
        for arm in ("", *ARMS):
            client.until(lambda: level(client, active, arm) == DiagnosticStatus.ERROR)  # noqa: B023
        status, _ = client.diagnosis(active.name)
        assert "graph_watch.py:" in status.message
        assert client.call(Trigger, "/faulty/stop").success
        assert "look_or_stand" in active.log  # the stack of the thread
    finally:
        blocker.unlink()
    client.until(lambda: level(client, active) != DiagnosticStatus.ERROR)
    client.until(lambda: level(client, active, "left") == DiagnosticStatus.OK)
    for arm in ARMS:
        assert client.diagnosis(f"{active.name}/{arm}")[1]["owner"] == f"{arm}/hold"
    active.wait_for("client_silent")
    assert "is recreated" not in active.log


@pytest.mark.long
def test_deaf_participant_was_unresponsive_for_minutes(active, client):
    manager = "/faulty/controller_manager/list_controllers"
    before = active.log.count("client_silent")
    active.wait_for("answers its clients")
    assert deafen(active.process.pid, lambda waits: wait_until(waits, 5.0)) >= 2
    client.until(lambda: level(client, active) == DiagnosticStatus.ERROR, 10.0, "ERROR")
    assert "answered the self-check" in client.diagnosis(active.name)[0].message
    assert client.call(Trigger, "/faulty/stop").success
    client.until(lambda: active.log.count("client_silent") > before, 10.0, "hold of all arms")
    client.until(lambda: "is recreated;" in active.log, 30.0, "a new participant")
    client.until(lambda: level(client, active) != DiagnosticStatus.ERROR, 30.0, "a response")
    assert {law.name for law in client.call(ListControllers, manager).controller} >= set(IMPEDANCE)
    assert client.switch(IMPEDANCE, [], strictness=4, namespace="/faulty").ok
    client.until(lambda: client.diagnosis(f"{active.name}/left")[1]["owner"] == IMPEDANCE[0])
    assert active.process.poll() is None
