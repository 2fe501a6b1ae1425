# SPDX-License-Identifier: Apache-2.0
"""Conversion of received messages and parameters, without a node."""

from __future__ import annotations

import contextlib
import struct
from array import array

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.clock import Clock
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from multipanda_py.exceptions import ConfigurationError, TargetRejected
from multipanda_py.ros.node import conversions
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.conversions import in_full, read_joints, read_numbers, read_pose
from multipanda_py.ros.node.settings import nested

pytestmark = pytest.mark.inline

NAMES = tuple(f"joint{number}" for number in range(1, 8))


def stamped(frame):
    message = PoseStamped()
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = 12, 345
    point, quaternion = message.pose.position, message.pose.orientation
    point.x, point.y, point.z = 0.1, -0.2, 0.3
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = 0.5, -0.5, 0.5, 0.5
    return message


def test_joint_names_without_arm_prefix_are_completed():
    names = [f"my_left_fr3_joint{number}" for number in range(1, 8)]
    short = [name.removeprefix("my_left_") for name in names]
    assert in_full(short[::-1], names) == names[::-1]
    assert in_full([short[3]], names) == [names[3]]
    for other in ([], names, [*short[:6], "elbow"], ["joint9"], [*short[:6], names[6]]):
        assert in_full(other, names) == other
    message = JointState(name=short[::-1], position=[float(number) for number in range(7)])
    assert read_joints(message, names)[0] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize("frame", ["", "w", "world", "left_fr3_link0", "élève", "x" * 100])
def test_pose_is_read_as_serialized(frame):
    found = read_pose(serialize_message(stamped(frame)))
    assert (found.stamp_ns, found.frame) == (12_000_000_345, frame)
    assert found.pose.position.tolist() == [0.1, -0.2, 0.3]
    assert np.allclose(found.pose.quaternion_xyzw, [0.5, -0.5, 0.5, 0.5])


@pytest.mark.parametrize("frame", [b"", b"base", b"world\0"])
def test_frame_without_terminating_zero_lost_last_letter(frame):
    head = b"\0\1\0\0" + struct.pack("<iII", 12, 345, len(frame)) + frame
    raw = head + bytes(-(len(head) - 4) % 8) + struct.pack("<7d", *[0.0] * 6, 1.0)
    assert read_pose(raw).frame == frame.rstrip(b"\0").decode()
    assert conversions.read_message(PoseStamped, raw).header.frame_id == read_pose(raw).frame


def test_big_endian_pose():
    frame = b"world\0"
    raw = b"\0\0\0\0" + struct.pack(">iII", 12, 345, len(frame)) + frame + bytes(6)
    found = read_pose(raw + struct.pack(">7d", 0.1, -0.2, 0.3, 0.0, 0.0, 0.0, 1.0))
    assert (found.stamp_ns, found.frame) == (12_000_000_345, "world")
    assert found.pose.position.tolist() == [0.1, -0.2, 0.3]


@pytest.mark.parametrize(
    ("ahead", "max_age", "allowed"),
    [(5.0, 1.0, False), (0.3, 1.0, False), (0.1, 1.0, True), (0.1, 0.05, False), (1e9, 0.0, True),
     (-0.5, 1.0, True), (-1.5, 1.0, False)],
)  # fmt: skip
def test_future_and_old_stamps_are_rejected(ahead, max_age, allowed):
    clock = NodeClock(Clock())
    now = clock.check()
    stamp = now + int(ahead * 1e9)
    if allowed:
        clock.check_age(now, stamp, max_age)
        return
    with pytest.raises(TargetRejected, match=r"in the future|s old"):
        clock.check_age(now, stamp, max_age)


def test_every_truncated_message_is_rejected():
    raw = serialize_message(stamped("world"))
    for length in range(len(raw) - 1):
        with pytest.raises(TargetRejected):
            read_pose(raw[:length])


def test_joints_are_sorted_by_name():
    shuffled = [4, 0, 6, 2, 5, 1, 3]
    message = JointState(
        name=[NAMES[i] for i in shuffled],
        position=[i / 10 for i in shuffled],
        velocity=[float(i) for i in shuffled],
    )
    q, dq = read_joints(message, NAMES)
    assert q == [i / 10 for i in range(7)]
    assert dq == [float(i) for i in range(7)]
    message.velocity = []
    assert read_joints(message, NAMES)[1] is None


def test_duplicate_joint_name_is_rejected():
    message = JointState(name=[*NAMES, NAMES[0]], position=[0.0] * 8)
    with pytest.raises(TargetRejected, match="duplicate names"):
        read_joints(message, NAMES)


def test_dotted_parameters_are_nested_as_cell_file():
    data = nested(
        {
            "use_sim_time": False,
            "arms.right.gripper": True,
            "arms.left.position": array("d", [0.0, 0.3, 0.0]),
            "controllets.c.features": None,
            "active": ["left/c"],
        }
    )
    assert data == {
        "arms": {"right": {"gripper": True}, "left": {"position": [0.0, 0.3, 0.0]}},
        "controllets": {"c": {"features": []}},
        "active": ["left/c"],
    }
    assert list(data["arms"]) == ["right", "left"]


@pytest.mark.parametrize("order", [1, -1])
def test_value_with_subkeys_of_same_name_is_rejected(order):
    names = ["arms.left", "arms.left.gripper"][::order]
    with pytest.raises(ConfigurationError, match=r"arms\.left"):
        nested(dict.fromkeys(names, True))


def test_velocities_without_positions_are_accepted():
    names = ["a", "b"]
    message = JointState(name=["b", "a"], velocity=[2.0, 1.0])
    assert read_joints(message, names) == (None, [1.0, 2.0])
    with pytest.raises(TargetRejected, match=r"position: .*\b0\b"):
        read_joints(JointState(name=names), names)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [(TwistStamped, ("linear", "angular")), (WrenchStamped, ("force", "torque"))],
)
@pytest.mark.parametrize("frame", ["", "world", "left_fr3_link0"])
def test_six_numbers_are_read_as_serialized_and_truncations_rejected(kind, parts, frame):
    message = kind()
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = 12, 345
    body = message.twist if kind is TwistStamped else message.wrench
    for number, name in enumerate(parts):
        vector = getattr(body, name)
        vector.x, vector.y, vector.z = (3.0 * number + axis for axis in range(3))
    raw = serialize_message(message)
    found = read_numbers(kind, parts, raw)
    assert found == (12_000_000_345, frame, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    for length in range(len(raw)):
        with pytest.raises(TargetRejected, match=rf"\b{kind.__name__}\b"):
            read_numbers(kind, parts, raw[:length])


@pytest.mark.parametrize("kind", [b"\0\6", b"\0\7"])
def test_pose_in_extended_cdr_was_read_as_wrong_numbers(kind):
    """Extended CDR aligns doubles to 4 bytes; a message that rclpy cannot read is rejected."""
    order = ">" if kind[1] == 6 else "<"
    frame = b"abcd\0"
    body = struct.pack(f"{order}iII", 12, 345, len(frame)) + frame + bytes(3)
    body += struct.pack(f"{order}7d", 0.1, -0.2, 0.3, 0.0, 0.0, 0.0, 1.0)
    got = []
    with contextlib.suppress(TargetRejected):
        found = read_pose(kind + b"\0\0" + body)
        got = [found.stamp_ns, found.frame, *found.pose.position]
    assert got in ([], [12_000_000_345, "abcd", 0.1, -0.2, 0.3])


def test_rclpy_fallback_reads_same_order(monkeypatch):
    pose, wrench = stamped("world"), WrenchStamped()
    wrench.header.frame_id = "left"
    force, torque = wrench.wrench.force, wrench.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = map(float, range(6))
    requested = (PoseStamped, ("position", "orientation")), (WrenchStamped, ("force", "torque"))
    raws = [serialize_message(message) for message in (pose, wrench)]
    before = [read_numbers(*kind, raw) for kind, raw in zip(requested, raws)]
    monkeypatch.setattr(conversions, "ORDERS", {})
    assert [read_numbers(*kind, raw) for kind, raw in zip(requested, raws)] == before
    assert before[1].numbers == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_wrench_was_written_in_different_order_than_read():
    message, wrench = WrenchStamped(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    conversions.write_wrench(message.wrench, wrench)
    found = read_numbers(WrenchStamped, ("force", "torque"), serialize_message(message))
    assert found.numbers == wrench
