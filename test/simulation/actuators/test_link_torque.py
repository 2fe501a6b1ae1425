# SPDX-License-Identifier: Apache-2.0
"""Limit of spring torque to the torque limit of links under motor commands."""

from __future__ import annotations

import re

import numpy as np
import pytest
from long_form import every_nth
from springs_of_fr3 import springs

from multipanda_py.realtime.events import Event
from multipanda_py.robots.actuated_joints import OperationMode

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LAW = "commands"
FAR = np.array([0.35, -0.3, 0.38, -0.39, 0.3, -0.35, 0.39])
PULL = np.repeat([150.0, 30.0], [4, 3]) * np.sign(FAR)
MODES = ["motor_torque", "motor_pid", "equilibrium_pid"]


def commanded(make_cell, mode, motors=None, **params):
    own = springs("equilibrium_pid")
    for name, group in own.items():
        group["params"] |= params
        group["motor"] |= (motors or {}).get(name, {})
    laws = {LAW: {"type": "actuator_commands", "arms": ["left"], "params": {"mode": mode}}}
    cell = make_cell({"left": {"actuators": own, "gripper": False}}, laws, [LAW])
    cell.step(5)
    return cell


def drive_of(cell):
    return cell.loop.backends[0].compliant.drive


def command_motors(cell, mode, fraction):
    """Command a fraction of a large step, or of the maximum torque of the motors."""
    names = [
        name for name in OperationMode.from_value(mode).commands if name != "stiffness_preset"
    ]
    joints = drive_of(cell).joints
    step = fraction * (PULL if mode == "motor_torque" else FAR)
    cell.command_actuators("left", **{name: joints.commanded(name) + step for name in names})


@pytest.mark.parametrize("damping", [0.0, 3.0])
@pytest.mark.parametrize("mode", every_nth(3, MODES))
def test_motor_commands_exceeded_link_torque_limit_twofold(make_cell, mode, damping):
    """The arm then stopped with a fault; with dampers the torque was 2.9 times the limit."""
    cell = commanded(make_cell, mode, damping=damping)
    limits, data = cell.descriptions["left"].limits, cell.simulation.data
    fastest, largest = np.zeros((2, 7))
    for direction in (1.0, -1.0):
        command_motors(cell, mode, direction)
        for _ in range(100):
            cell.step(1)
            torque = np.abs(data.ctrl[:7] - data.qfrc_bias[:7])
            largest = np.maximum(largest, torque / limits.torque)
            fastest = np.maximum(fastest, np.abs(data.qvel[:7]) / limits.velocity)
    assert (largest <= 1.1).all(), largest
    assert (largest > 0.4).sum() >= 3, largest  # The command still exerts a large torque.
    assert (fastest <= 1.2).all(), fastest
    assert not [event.text for event in cell.events() if "springs exert" in event.text]
    cell.hold()
    cell.step(400)
    assert np.abs(data.qvel[:7]).max() < 0.05 + 0.05 * damping


@pytest.mark.parametrize("mode", MODES)
def test_commands_within_link_limits_are_unchanged(make_cell, mode):
    found = []
    for is_kept in (True, False):
        cell = commanded(make_cell, mode)
        if not is_kept:
            drive_of(cell).limiter = None
        command_motors(cell, mode, 0.1 if mode != "motor_torque" else 0.02)
        cell.step(100)
        assert np.abs(cell.state("left").dq).max() > 1e-3
        found.append(cell.simulation.data.qpos[:7].copy())
    np.testing.assert_array_equal(*found)


def test_limited_command_continues_from_saved_state(make_cell):
    cell = commanded(make_cell, "equilibrium_pid")
    sim, drive, rows = cell.simulation, drive_of(cell), []
    before = drive.joints.commanded("equilibrium_position")
    command_motors(cell, "equilibrium_pid", 1.0)
    cell.step(15)
    received = drive.joints.commanded("equilibrium_position") - before
    np.testing.assert_allclose(received, FAR, atol=1e-12)  # The command stays unchanged.
    saved = sim.save()
    for _ in range(2):
        sim.reset(saved)
        for _ in range(20):
            cell.step(1)
            rows.append(sim.data.qpos[:7].copy())
        cell.step(13)
    np.testing.assert_array_equal(rows[:20], rows[20:])


def test_limited_motors_are_reported_once(make_cell):
    cell = commanded(make_cell, "motor_torque")
    command_motors(cell, "motor_torque", 1.0)
    cell.step(500)
    reported = [event.text for event in cell.events() if event.event is Event.NOTICE]
    assert any(re.search(r"\bleft: left_fr3_joint7: motors .*\b12 Nm", text) for text in reported)
    assert len({*reported}) == len(reported)


def test_motors_at_own_limit_were_reported_as_limited_for_links(make_cell):
    """Motors of 6 Nm cannot overload joints with a limit of 12 Nm for any reference."""
    cell = commanded(make_cell, "equilibrium_pid", {"wrist": {"max_torque": 6.0}})
    joints = drive_of(cell).joints
    step = np.where(np.arange(7) < 4, 0.0, FAR)
    cell.command_actuators(
        "left", equilibrium_position=joints.commanded("equilibrium_position") + step
    )
    cell.step(200)
    assert [event.text for event in cell.events()] == []
