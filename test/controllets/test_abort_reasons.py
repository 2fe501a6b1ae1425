# SPDX-License-Identifier: Apache-2.0
"""Reported reasons of a motion that ends before its goal, for users without an action client."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py.realtime.events import Event

pytestmark = [pytest.mark.sim, pytest.mark.inline]

TABLE = {"table": {"shape": "box", "size": [0.3, 0.3, 0.02], "position": [0.4, 0.0, 0.4]}}
DOWN = np.array([0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])


def start(make_cell, law, params=None, **settings):
    """Return a cell whose arm is above a table, under a controllet that accepts configurations."""
    interfaces = {"interfaces": ["position"]} if law == "joint_position" else {}
    laws = {"law": {"type": law, "params": params or {}, **settings}}
    cell = make_cell({"left": interfaces}, laws, ["left/law"], objects=TABLE)
    cell.step(5)
    assert cell.events() == []
    return cell


def notices(cell):
    """Return the notices since the last call."""
    events = cell.events()
    assert {event.event for event in events} <= {Event.NOTICE}
    assert {event.controllet for event in events} <= {"left/law"}
    return [event.text for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("law", ["joint_trajectory", "joint_position"])
def test_blocked_configuration_target_ended_without_notice(make_cell, law):
    """Only an action client was notified; the sender of a configuration saw a stationary arm."""
    cell = start(make_cell, law, {"goal_time": 0.2})
    q = cell.state("left").q
    for _ in range(2):  # every motion is reported
        cell.set_target("left", q=q + DOWN)
        cell.step(2500)
        (text,) = notices(cell)
        assert re.match(r"left: .*\bleft/gripper and table .*\b0\.0.* 0\.2 s \(goal_time\)", text)
    cell.set_target("left", q=q)
    cell.step(2500)
    assert notices(cell) == []
    assert np.abs(cell.state("left").q - q).max() < 0.01


@pytest.mark.slow
def test_blocked_configuration_stream_stopped_without_notice(make_cell):
    """Each motion is replaced by the next, long before it ends."""
    cell = start(make_cell, "joint_trajectory", {"goal_time": 0.2})
    q = cell.state("left").q
    for _ in range(120):
        cell.set_target("left", q=q + DOWN)
        cell.step(40)
    (text,) = notices(cell)
    assert re.search(r"\bleft/gripper and table .*\b0\.0", text)
    cell.set_target("left", q=q)
    cell.step(2500)
    assert notices(cell) == []
    assert np.abs(cell.state("left").q - q).max() < 0.01


@pytest.mark.parametrize("law", ["joint_trajectory", "joint_position"])
def test_contact_abort_had_no_notice_and_stream_reports_once(make_cell, law):
    cell = start(make_cell, law, {"contact_torque": [6.0] * 7}, features=[])
    q = cell.state("left").q
    cell.set_target("left", q=q + 2.0 * DOWN)
    cell.step(3000)
    (text,) = notices(cell)
    joint = int(cell.report("left/law")["contact joint"])
    assert re.search(rf"contact: .*\bjoint {joint} .* Nm \(contact_torque\)", text)
    for number in range(75):
        cell.set_target("left", q=q + DOWN + 1e-4 * number)
        cell.step(20)
    reported = notices(cell)
    assert len(reported) <= 1, reported


def test_goal_timeout_ended_without_notice(make_cell):
    params = {"goal_tolerance": [1e-6] * 7, "goal_time": 0.1, "velocity_scaling": 1.0}
    cell = start(make_cell, "joint_trajectory", params)
    cell.set_target("left", q=cell.state("left").q - 0.1 * DOWN)
    cell.step(1500)
    (text,) = notices(cell)
    assert re.search(r"\b0\.1 s .*\b1e-06 rad \(goal_tolerance\)", text)
