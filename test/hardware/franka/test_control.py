# SPDX-License-Identifier: Apache-2.0
"""Torque commands: received in the cycle of their state, always bounded."""

from __future__ import annotations

import math
import os
import signal

import numpy as np
import pytest
from robots import TORQUE_RATE

from multipanda_py.hardware.franka.backend import REST_SPEED
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.simulation.fci import FciSim

pytestmark = pytest.mark.clock


@pytest.mark.long
def test_lockstep_loses_no_packets(make, new_address):
    """Answer every state of two arms for 5 s of robot time."""
    addresses = [new_address(), new_address()]
    with FciSim(addresses, together=True) as sim:
        cell = make(addresses)
        start = [goal.copy() for goal in cell.goals]
        cell.run(cell.ready)
        while min(cell.cycles) < 5000:
            cell.step(timeout=1.0)
            assert cell.faults == []
            for i, goal in enumerate(cell.goals):
                goal[:] = start[i]
                goal[3] += 0.1 * math.sin(0.002 * cell.cycles[i])
        assert cell.faults == []
        for index, address in enumerate(addresses):
            counted = sim.admin(address, "stats")
            assert counted["active_cycles"] >= 4995
            assert counted["lost"] == 0
            assert counted["stale"] == 0
            assert 0.0 < counted["torque_rate_max"] <= 1000.0
            assert np.abs(cell.states[index].q - start[index]).max() > 0.01
        cell.backend.close()
        assert [sim.admin(a, "stats")["errors"] for a in addresses] == [[], []]
        assert [sim.admin(a, "stats")["mode"] for a in addresses] == ["idle", "idle"]


def test_torque_belongs_to_its_state(lockstep, make):
    """The log of the robot has the computed torque for every state."""
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    sent = {}
    for k in range(150):
        cell.bias[:] = 0.01 * (k % 50)
        if cell.step(timeout=1.0):
            number = round(cell.backend.time * 1000)
            sent[number] = cell.states[0].tau.tolist()
    log = sim.admin(addresses[0], "log")["commands"]
    compared = [entry for entry in log if entry["message_id"] in sent]
    assert len(compared) > 50
    for entry in compared:
        assert entry["tau"] == sent[entry["message_id"]]


def test_answer_latency_in_real_time(clocked, make):
    """A broken wake-up would cause latencies of milliseconds."""
    sim, addresses = clocked
    cell = make(addresses, franka={})
    cell.run(cell.ready)
    cell.run_cycles(1500)
    for address in addresses:
        counted = sim.admin(address, "stats")
        assert counted["latency_us"]["50"] < 700.0, counted
        assert counted["torque_rate_max"] <= 1000.0


def test_external_torque_has_sign_of_push(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    sim.admin(addresses[0], "push", tau=[0, 0, 0, 2.5, 0, 0, 0])
    cell.run(lambda: abs(cell.states[0].tau_ext[3]) > 1.0)
    np.testing.assert_allclose(cell.states[0].tau_ext, [0, 0, 0, 2.5, 0, 0, 0], atol=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_driver_refuses_non_finite_torque(lockstep, make, wrong):
    """The other arm continues; this one ends at zero torque without a reflex."""
    sim, addresses = lockstep
    cell = make(addresses)
    cell.bias[3] = 3.0
    cell.run(cell.ready)
    cell.run_cycles(50)
    cell.states[0].tau[2] = wrong
    cell.backend.write([0])
    while not any(index == 0 for index, _ in cell.faults):
        for i in cell.step(timeout=1.0):
            cell.states[i].tau[2] = 0.0
    kind, text = cell.fault(0)
    assert kind == "torque_invalid"
    assert str(wrong) in text
    counted = sim.admin(addresses[0], "stats")
    assert counted["errors"] == []
    assert counted["torque_rate_max"] <= 1000.0
    log = np.array([entry["tau"] for entry in sim.admin(addresses[0], "log")["commands"]])
    assert np.isfinite(log).all()
    assert np.abs(log[-1]).max() < 0.5
    assert cell.backend.is_ready(1)
    cell.run(lambda: not cell.backend.is_ready(0))
    assert not cell.states[0].tau.any()
    cell.recover(0)


def test_driver_bounds_torque_step(lockstep, make):
    """A loop without torque limiter cannot cause a discontinuity or a range error."""
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    for _ in range(30):
        if cell.step(timeout=1.0, write=False):
            cell.states[0].tau[:] = [0, 0, 0, 0, 0, 0, 50.0]
            cell.backend.write([0])
    counted = sim.admin(addresses[0], "stats")
    assert 900.0 < counted["torque_rate_max"] <= 1000.0
    assert counted["errors"] == []


def settings_response(cell, options):
    """Send settings to the arm and return the responses."""
    found = []
    cell.backend.configure(0, options)
    cell.run(lambda: found.extend(cell.backend.settings_responses()) or found)
    return found


def test_settings_end_motion_and_start_next(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.bias[3] = 3.0
    cell.run(cell.ready)
    cell.run_cycles(50)
    # The arm has 2 s to come to rest, which are few robot cycles on a busy machine.
    cell.run(lambda: np.abs(cell.states[0].dq).max() < 0.5 * REST_SPEED)
    observed = []
    cell.backend.configure(0, FrankaSettings(upper_torque_thresholds=[3.0] * 7))

    def reported():
        observed.append((sim.admin(addresses[0], "stats")["mode"], cell.states[0].tau.any()))
        return cell.backend.settings_responses() == [(0, "")]

    cell.run(reported)
    assert ("idle", False) in observed
    assert cell.ready()
    counted = sim.admin(addresses[0], "stats")
    assert counted["errors"] == []
    assert 0.0 < counted["torque_rate_max"] <= TORQUE_RATE
    reason = settings_response(cell, FrankaSettings(cartesian_impedance=[1.0] * 6))[0][1]
    assert reason.startswith(f"left: robot {addresses[0]}: cartesian_impedance: ")
    assert cell.ready()
    assert cell.faults == []
    sim.admin(addresses[0], "push", tau=[0, 0, 0, 4, 0, 0, 0])
    assert "joint_reflex" in cell.fault(0)[1]


def test_recovery_waits_for_settings(lockstep, make):
    """A robot in reflex accepts settings; a recovery requested meanwhile follows them."""
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    sim.admin(addresses[0], "fault", errors=["joint_reflex"])
    cell.fault(0)
    cell.faults.clear()
    cell.backend.configure(0, FrankaSettings(load_mass=0.25))
    cell.backend.recover(0)
    found = []
    cell.run(lambda: found.extend(cell.backend.settings_responses()) or found)
    assert found == [(0, "")]
    assert sim.admin(addresses[0], "settings")["load_mass"] == 0.25
    cell.run(cell.ready)
    assert cell.faults == []


def test_moving_arm_receives_settings_at_rest(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    cell.goals[0][5] += 0.3
    cell.run(lambda: np.abs(cell.states[0].dq).max() > 0.2)
    speeds = []
    cell.backend.configure(0, FrankaSettings(load_mass=0.25))
    while not cell.backend.settings_responses():
        cell.step(timeout=1.0)
        if cell.ready():
            speeds.append(np.abs(cell.states[0].dq).max())
    assert max(speeds) > 0.2
    assert speeds[-1] < 0.05
    assert sim.admin(addresses[0], "stats")["errors"] == []
    assert sim.admin(addresses[0], "settings")["load_mass"] == 0.25


@pytest.mark.parametrize("what", ["user_stop", "driver_killed"])
def test_settings_are_answered_despite_interruption(lockstep, make, what):
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    cell.backend.configure(0, FrankaSettings(load_mass=0.25))
    assert cell.backend.settings_responses() == []
    if what == "user_stop":
        sim.admin(addresses[0], "user_stop", pressed=True)
    else:
        os.kill(cell.backend.real_arms[0].link.pid, signal.SIGKILL)
    found = []
    cell.run(lambda: found.extend(cell.backend.settings_responses()) or (found and cell.faults))
    assert not cell.ready()
    assert [index for index, _ in found] == [0]
    applied = sim.admin(addresses[0], "settings")["load_mass"] == 0.25
    assert applied == (found[0][1] == "")
    sim.admin(addresses[0], "user_stop", pressed=False)
    cell.recover(0)
