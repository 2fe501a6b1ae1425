# SPDX-License-Identifier: Apache-2.0
"""Messages of others become the state of an arm, or are refused in words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.hardware.ros2_control.joint_states import JointReading, StateInvalid

pytestmark = pytest.mark.inline


def message(seconds, name, position, velocity, effort):
    """Return what has the fields of a ``sensor_msgs/JointState``."""
    stamp = SimpleNamespace(sec=int(seconds), nanosec=round(seconds % 1 * 1e9))
    return SimpleNamespace(
        header=SimpleNamespace(stamp=stamp), name=name, position=position, velocity=velocity,
        effort=effort,
    )  # fmt: skip


def test_joints_are_taken_by_name_whatever_stands_around_them():
    reading = JointReading(["a", "b"])
    assert reading.receive(message(1.5, ["x", "b", "a"], [9, 2, 1], [9, 4, 3], [9, 6, 5]))
    assert (reading.time, reading.q, reading.dq, reading.effort) == (1.5, [1, 2], [3, 4], [5, 6])
    assert reading.receive(
        message(1.6, ["a", "b"], [1, 2], [3, 4], [])
    )  # another order, no efforts
    assert (reading.q, reading.effort) == ([1, 2], [])


def test_what_is_not_newer_or_not_of_this_arm_is_left_alone():
    reading = JointReading(["a", "b"])
    assert not reading.receive(message(1.0, ["c", "d"], [1, 2], [3, 4], []))
    assert reading.receive(message(1.0, ["a", "b"], [1, 2], [3, 4], []))
    assert not reading.receive(message(1.0, ["a", "b"], [5, 6], [7, 8], []))
    assert not reading.receive(message(0.9, ["a", "b"], [5, 6], [7, 8], []))
    assert reading.q == [1, 2]


@pytest.mark.parametrize(
    ("names", "q", "dq", "effort", "words"),
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
def test_what_cannot_be_a_state_is_refused_and_changes_nothing(names, q, dq, effort, words):
    reading = JointReading(["a", "b"])
    assert reading.receive(message(1.0, ["a", "b"], [1, 2], [3, 4], []))
    with pytest.raises(StateInvalid, match=words):
        reading.receive(message(2.0, names, q, dq, effort))
    assert (reading.time, reading.q, reading.dq) == (1.0, [1, 2], [3, 4])


def test_a_joint_that_jumps_is_refused_until_it_can_have_come_there():
    """A law would take an encoder that lost its zero for a motion, and move the arm."""
    reading = JointReading(["a", "b"], [3.0, 2.0], [False, True])
    assert reading.receive(message(1.0, ["b", "a"], [3.1, 0.5], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\ba\b.*\b0\.5\b.*\b1 rad\b.*\b2 ms"):
        reading.receive(message(1.002, ["b", "a"], [3.1, 1.0], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\bb\b.*\b3\.1\b.*\b2\.8 rad"):
        reading.receive(message(1.002, ["b", "a"], [2.8, 0.5], [0, 0], []))
    assert reading.receive(message(1.002, ["b", "a"], [-3.1, 0.5], [0, 0], []))  # a turn is none
    assert reading.receive(message(1.102, ["b", "a"], [-3.1, 1.0], [0, 0], []))


def test_a_joint_that_jumped_was_believed_after_a_while_and_carried_as_if_it_were_there():
    """65 ms after half a radian, nobody asked: the arm drifted by as much as it braked away."""
    reading = JointReading(["a"], [3.0], longest=0.05)
    assert reading.receive(message(1.0, ["a"], [0.0], [0], []))
    with pytest.raises(StateInvalid, match=r"\b0\.5 rad\b.*\b200 ms\b.*\b0\.4 rad"):
        reading.receive(message(1.2, ["a"], [0.5], [0], []))
    reading.forget()
    assert reading.receive(message(1.202, ["a"], [0.5], [0], []))


def test_a_jump_of_a_joint_that_slides_was_said_in_rad():
    reading = JointReading(["rail", "a"], [1.0, 3.0], slides=[True, False])
    assert reading.receive(message(1.0, ["rail", "a"], [0.0, 0.0], [0, 0], []))
    with pytest.raises(StateInvalid, match=r"\brail\b.*\b0\b.*\b0\.9 m\b.*\d m$"):
        reading.receive(message(1.02, ["rail", "a"], [0.9, 0.0], [0, 0], []))


def test_stamps_that_have_gone_back_are_followed_when_asked():
    """Those of a simulator that began again, say; what stands still stays refused."""
    reading = JointReading(["a"], [1.0])
    assert reading.receive(message(100.0, ["a"], [0.5], [0], []))
    reading.follow_back()
    assert not reading.receive(message(100.0, ["a"], [0.5], [0], []))
    assert not reading.receive(message(0.002, ["a"], [0.0], [0], []))
    reading.follow_back()
    assert not reading.receive(message(0.002, ["a"], [0.0], [0], []))
    assert reading.receive(message(0.004, ["a"], [0.0], [0], []))
    assert (reading.time, reading.q) == (0.004, [0.0])
