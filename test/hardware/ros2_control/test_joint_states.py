# SPDX-License-Identifier: Apache-2.0
"""Conversion of joint state messages into arm states, and refusals with reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.hardware.ros2_control.joint_states import JointReading, StateInvalid

pytestmark = pytest.mark.inline


def message(seconds, name, position, velocity, effort):
    """Return an object with the fields of a ``sensor_msgs/JointState``."""
    stamp = SimpleNamespace(sec=int(seconds), nanosec=round(seconds % 1 * 1e9))
    return SimpleNamespace(
        header=SimpleNamespace(stamp=stamp), name=name, position=position, velocity=velocity,
        effort=effort,
    )  # fmt: skip


def test_joints_are_selected_by_name():
    reading = JointReading(["a", "b"])
    assert reading.receive(message(1.5, ["x", "b", "a"], [9, 2, 1], [9, 4, 3], [9, 6, 5]))
    assert (reading.time, reading.q, reading.dq, reading.effort) == (1.5, [1, 2], [3, 4], [5, 6])
    # Different order, without efforts.
    assert reading.receive(message(1.6, ["a", "b"], [1, 2], [3, 4], []))
    assert (reading.q, reading.effort) == ([1, 2], [])


def test_older_or_foreign_messages_are_ignored():
    reading = JointReading(["a", "b"])
    assert not reading.receive(message(1.0, ["c", "d"], [1, 2], [3, 4], []))
    assert reading.receive(message(1.0, ["a", "b"], [1, 2], [3, 4], []))
    assert not reading.receive(message(1.0, ["a", "b"], [5, 6], [7, 8], []))
    assert not reading.receive(message(0.9, ["a", "b"], [5, 6], [7, 8], []))
    assert reading.q == [1, 2]


@pytest.mark.parametrize(
    ("names", "q", "dq", "effort", "pattern"),
    [
        (["a", "c"], [1, 2], [3, 4], [], "got joints"),
        (["a", "b", "a"], [1, 2, 3], [3, 4, 5], [], "once"),
        (["a", "b"], [1], [3, 4], [], r"\b1 positions\b.*\b2\b"),
        (["a", "b"], [1, 2], [], [], r"\b0 velocities\b.*\b2\b"),
        (["a", "b"], [1, 2], [3, 4], [5], r"\b1 efforts\b"),
        (["a", "b"], [1, float("nan")], [3, 4], [], "allowed finite"),
        (["a", "b"], [1, 2], [3, float("inf")], [], "allowed finite"),
        (["a", "b"], [1, 2], [3, 4], [5, float("nan")], "allowed finite"),
    ],
)
def test_invalid_states_are_refused_without_change(names, q, dq, effort, pattern):
    reading = JointReading(["a", "b"])
    assert reading.receive(message(1.0, ["a", "b"], [1, 2], [3, 4], []))
    with pytest.raises(StateInvalid, match=pattern):
        reading.receive(message(2.0, names, q, dq, effort))
    assert (reading.time, reading.q, reading.dq) == (1.0, [1, 2], [3, 4])


def test_joint_jump_is_refused_until_physically_possible():
    """A controllet would take a lost encoder zero for a motion and move the arm."""
    reading = JointReading(["a", "b"], [3.0, 2.0], [False, True])
    assert reading.receive(message(1.0, ["b", "a"], [3.1, 0.5], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\ba\b.*\b0\.5\b.*\b1 rad\b.*\b2 ms"):
        reading.receive(message(1.002, ["b", "a"], [3.1, 1.0], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\bb\b.*\b3\.1\b.*\b2\.8 rad"):
        reading.receive(message(1.002, ["b", "a"], [2.8, 0.5], [0, 0], []))
    # A full revolution is no jump.
    assert reading.receive(message(1.002, ["b", "a"], [-3.1, 0.5], [0, 0], []))
    assert reading.receive(message(1.102, ["b", "a"], [-3.1, 1.0], [0, 0], []))


def test_joint_jump_was_accepted_after_delay():
    """A jump of 0.5 rad was accepted after 65 ms without a request, and the arm drifted."""
    reading = JointReading(["a"], [3.0], max_gap=0.05)
    assert reading.receive(message(1.0, ["a"], [0.0], [0], []))
    with pytest.raises(StateInvalid, match=r"\b0\.5 rad\b.*\b200 ms\b.*\b0\.4 rad"):
        reading.receive(message(1.2, ["a"], [0.5], [0], []))
    reading.forget()
    assert reading.receive(message(1.202, ["a"], [0.5], [0], []))


def test_jump_of_prismatic_joint_was_reported_in_rad():
    reading = JointReading(["rail", "a"], [1.0, 3.0], slides=[True, False])
    assert reading.receive(message(1.0, ["rail", "a"], [0.0, 0.0], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\brail\b.*\b0\b.*\b0\.9 m\b.*\d m$"):
        reading.receive(message(1.02, ["rail", "a"], [0.9, 0.0], [0, 0], []))


def test_earlier_stamps_are_accepted_on_request():
    """A restarted simulator has earlier stamps; unchanged stamps stay refused."""
    reading = JointReading(["a"], [1.0])
    assert reading.receive(message(100.0, ["a"], [0.5], [0], []))
    reading.follow_back()
    assert not reading.receive(message(100.0, ["a"], [0.5], [0], []))
    assert not reading.receive(message(0.002, ["a"], [0.0], [0], []))
    reading.follow_back()
    assert not reading.receive(message(0.002, ["a"], [0.0], [0], []))
    assert reading.receive(message(0.004, ["a"], [0.0], [0], []))
    assert (reading.time, reading.q) == (0.004, [0.0])
