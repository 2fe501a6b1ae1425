# SPDX-License-Identifier: Apache-2.0
"""Faults of one arm: report, effect on the other arm, and recovery."""

from __future__ import annotations

import os
import re
import signal
import time

import numpy as np
import pytest
from processes import let_pass, wait_until
from robots import within_bounds

from multipanda_py.hardware.driver.memory import DriverWord

pytestmark = pytest.mark.clock

PUSH = {"command": "push", "tau": [0, 0, 0, 40, 0, 0, 0]}
FAULTS = [
    ("reflex", PUSH, {"command": "push"},
     "joint_reflex (an external wrench was above upper_force_thresholds; an external joint "
     "torque was above upper_torque_thresholds); recover"),
    ("reflex", {"command": "fault", "errors": ["communication_constraints_violation"]}, None,
     "communication_constraints_violation (20 "),
    ("reflex", {"command": "fault", "errors": ["self_collision_avoidance_violation",
                                               "power_limit_violation"]}, None,
     "power_limit_violation, self_collision_avoidance_violation ("),
    ("user_stop", {"command": "user_stop", "pressed": True},
     {"command": "user_stop", "pressed": False}, "the user stop is pressed; release it"),
    ("guiding", {"command": "guiding", "pressed": True},
     {"command": "guiding", "pressed": False}, "guided by hand"),
    ("aborted", {"command": "end_motion", "status": "preempted"}, None, "preempted"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "provoke", "undo", "words"), FAULTS,
                         ids=[f"{f[0]}-{i}" for i, f in enumerate(FAULTS)])  # fmt: skip
def test_fault_of_robot_is_reported_and_recovered(lockstep, make, kind, provoke, undo, words):
    sim, addresses = lockstep
    cell = make(addresses)
    cell.bias[5] = 0.5
    cell.run(cell.ready)
    cell.run_cycles(30)
    sim.admin(addresses[0], **provoke, at=cell.cycles[0] + 30)
    found, text = cell.fault(0)
    assert found == kind
    assert words in text
    assert addresses[0] in text
    cell.run(lambda: not cell.backend.is_ready(0))
    assert not cell.states[0].tau.any()
    _continue_with(cell, 1, 100)
    assert len(cell.faults) == 1, cell.faults
    assert not cell.backend.is_ready(0), "it must not start again without recovery"
    if undo is not None:
        if kind in ("user_stop", "guiding"):
            cell.faults.clear()
            cell.backend.recover(0)
            assert cell.fault(0)[0] == kind
        sim.admin(addresses[0], **undo)
    cell.recover(0)
    cell.run_cycles(30)
    _undisturbed(sim, addresses[1])


@pytest.mark.parametrize("command", ["kill_tcp", "kill_udp", "reboot"])
def test_lost_connection_is_reported_and_recovered(lockstep, make, command):
    sim, addresses = lockstep
    cell = make(addresses)
    cell.run(cell.ready)
    cell.run_cycles(30)
    old = cell.backend.real_arms[0].link.pid
    sim.admin(addresses[0], command)
    cell.run(lambda: any("network_lost" in text for _, text in cell.faults))
    assert {index for index, _ in cell.faults} == {0}
    assert "FCI" in cell.faults[-1][1]
    cell.run(lambda: not cell.backend.is_ready(0))
    assert not cell.states[0].tau.any()
    _continue_with(cell, 1, 100)
    assert len(cell.faults) <= 2, cell.faults
    if command == "kill_udp":
        sim.admin(addresses[0], "heal")
    while not sim.admin(addresses[0], "stats")["running"]:
        cell.step()
    cell.recover(0)
    assert cell.backend.real_arms[0].link.pid != old
    _undisturbed(sim, addresses[1])


def test_killed_driver_is_reported_and_replaced(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses)
    cell.run(cell.ready)
    cell.run_cycles(30)
    os.kill(cell.backend.real_arms[0].link.pid, signal.SIGKILL)
    began = time.monotonic()
    kind, text = cell.fault(0)
    assert time.monotonic() - began < 1.0
    assert kind == "driver_died"
    assert "was killed by SIGKILL" in text
    cell.run(lambda: not cell.backend.is_ready(0))
    _continue_with(cell, 1, 100)
    assert len(cell.faults) == 1
    cell.recover(0)
    cell.run_cycles(30)
    _undisturbed(sim, addresses[1])


def test_stopped_driver_is_reported_and_reused(clocked, make):
    """The silence of the driver and the reflex of the robot are reported."""
    sim, addresses = clocked
    cell = make(addresses, franka={})
    cell.run(cell.ready)
    cell.run_cycles(30)
    pid = cell.backend.real_arms[0].link.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        kind, text = cell.fault(0)
        assert kind == "driver_silent", text
        assert not cell.backend.is_ready(0)
        _continue_with(cell, 1, 30)
    finally:
        os.kill(pid, signal.SIGCONT)
    cell.run(lambda: any("communication_constraints" in text for _, text in cell.faults))
    counted = sim.admin(addresses[0], "stats")
    assert counted["longest_run"] == 20
    cell.run(lambda: sim.admin(addresses[0], "stats")["mode"] == "reflex")
    cell.recover(0)
    assert cell.backend.real_arms[0].link.pid == pid
    _undisturbed(sim, addresses[1])


def test_persistently_stopped_driver_is_replaced(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses)
    cell.run(cell.ready)
    pid = cell.backend.real_arms[0].link.pid
    os.kill(pid, signal.SIGSTOP)
    assert cell.fault(0)[0] == "driver_silent"
    cell.recover(0)
    assert cell.backend.real_arms[0].link.pid != pid
    _undisturbed(sim, addresses[1])


def test_new_driver_reports_fault_of_robot_at_once(lockstep, make):
    """Messages directly after the first answer are received."""
    sim, addresses = lockstep
    cell = make(addresses)
    cell.run(cell.ready)
    link = cell.backend.real_arms[0].link
    os.kill(link.pid, signal.SIGSTOP)
    assert cell.fault(0)[0] == "driver_silent"
    sim.admin(addresses[0], "reflex", error="cartesian_reflex")
    cell.faults.clear()
    cell.backend.recover(0)
    both = link.watch.messages + 2  # both lines must arrive together
    wait_until(lambda: link.words[DriverWord.MESSAGES] >= both)
    kind, text = cell.fault(0)
    assert (kind, "cartesian_reflex" in text) == ("reflex", True)
    cell.recover(0)
    _undisturbed(sim, addresses[1])


def test_silent_loop_ramps_torque_to_zero(clocked, make):
    """The torque reaches zero within 20 ms, the motion ends regularly, no command repeats."""
    sim, addresses = clocked
    cell = make(addresses, franka={})
    cell.run(cell.ready)
    cell.bias[3] = 8.0
    cell.run_cycles(60)
    assert np.abs(cell.states[0].tau).max() > 1.0
    wait_until(lambda: all(sim.admin(one, "stats")["mode"] == "idle" for one in addresses))
    log = sim.admin(addresses[0], "log")["commands"]
    counted = [sim.admin(address, "stats") for address in addresses]
    for stats in counted:
        assert stats["mode"] == "idle"
        assert stats["errors"] == []
        assert stats["torque_rate_max"] <= 1000.0
        assert stats["longest_repeat_ms"] < 40.0  # the driver continues without the loop
    size = np.array([np.abs(entry["tau"]).max() for entry in log])
    last = int(np.argmax(size[::-1] > 0.999 * size[-25:].max()))
    assert last <= 24, size[-30:]
    tail = size[-10:]
    assert (np.diff(tail) <= 1e-9).all(), tail
    assert size[-1] < 0.1 * size[-25:].max()
    for index in (0, 1):
        kind, text = cell.fault(index)
        assert kind == "loop_silent"
        assert re.search(r"\b2\d(\.\d+)? ms", text)
    assert not cell.ready()
    cell.backend.recover(0)
    cell.recover(1)
    cell.run(cell.ready)


def test_short_silence_of_loop_is_bridged(clocked, make):
    """Five cycles without the loop reduce the torque but do not end the motion."""
    sim, addresses = clocked
    cell = make(addresses, franka={})
    cell.run(cell.ready)
    cell.bias[3] = 8.0
    cell.run_cycles(60)
    let_pass(0.005)
    cell.run_cycles(60)
    assert cell.faults == []
    counted = sim.admin(addresses[0], "stats")
    assert counted["longest_run"] < 20
    assert counted["torque_rate_max"] <= 1000.0
    assert cell.backend.real_arms[0].link.words[13] >= 3  # commands of the driver without the loop


def _continue_with(cell, arm, cycles):
    goal = cell.cycles[arm] + cycles
    cell.run(lambda: cell.cycles[arm] >= goal)
    assert cell.backend.is_ready(arm)


def _undisturbed(sim, address):
    """Check that the other arm continues its motion without errors."""
    counted = sim.admin(address, "stats")
    assert counted["mode"] == "move"
    assert counted["errors"] == []
    within_bounds(counted)


def test_idle_silent_arm_executes_nothing_until_recovery(clocked, make):
    """The robot reports no fault if states are lost without a motion."""
    sim, addresses = clocked
    cell = make(addresses[:1])
    cell.step(write=False)
    sim.admin(addresses[0], "drop", states=700)
    cell.run(lambda: cell.faults, write=False)
    assert cell.faults[0][1].startswith("robot_silent")
    received = []
    cell.run(lambda: received.extend(cell.step()) or len(received) > 200)
    assert not cell.backend.is_ready(0)
    cell.recover(0)
