# SPDX-License-Identifier: Apache-2.0
"""Messages and parameters as they come in, without a node."""

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
    point, turn = message.pose.position, message.pose.orientation
    point.x, point.y, point.z = 0.1, -0.2, 0.3
    turn.x, turn.y, turn.z, turn.w = 0.5, -0.5, 0.5, 0.5
    return message


def test_an_arm_s_joints_may_come_without_its_name_but_all_of_them():
    names = [f"my_left_fr3_joint{number}" for number in range(1, 8)]
    short = [name.removeprefix("my_left_") for name in names]
    assert in_full(short[::-1], names) == names[::-1]
    assert in_full([short[3]], names) == [names[3]]
    for other in ([], names, [*short[:6], "elbow"], ["joint9"], [*short[:6], names[6]]):
        assert in_full(other, names) == other
    message = JointState(name=short[::-1], position=[float(number) for number in range(7)])
    assert read_joints(message, names)[0] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize("frame", ["", "w", "world", "left_fr3_link0", "élève", "x" * 100])
def test_pose_is_read_as_it_was_serialized(frame):
    found = read_pose(serialize_message(stamped(frame)))
    assert (found.stamp_ns, found.frame) == (12_000_000_345, frame)
    assert found.pose.position.tolist() == [0.1, -0.2, 0.3]
    assert np.allclose(found.pose.quaternion_xyzw, [0.5, -0.5, 0.5, 0.5])


@pytest.mark.parametrize("frame", [b"", b"base", b"world\0"])
def test_a_name_without_a_final_zero_lost_its_last_letter(frame):
    head = b"\0\1\0\0" + struct.pack("<iII", 12, 345, len(frame)) + frame
    raw = head + bytes(-(len(head) - 4) % 8) + struct.pack("<7d", *[0.0] * 6, 1.0)
    assert read_pose(raw).frame == frame.rstrip(b"\0").decode()
    assert conversions.read_message(PoseStamped, raw).header.frame_id == read_pose(raw).frame


def test_pose_from_a_big_endian_machine():
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
def test_a_stamp_from_the_future_is_refused_as_an_old_one_is(ahead, max_age, allowed):
    clock = NodeClock(Clock())
    now = clock.check()
    stamp = now + int(ahead * 1e9)
    if allowed:
        clock.check_age(now, stamp, max_age)
        return
    with pytest.raises(TargetRejected, match=r"in the future|s old"):
        clock.check_age(now, stamp, max_age)


def test_every_cut_of_a_message_is_refused():
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


def test_a_joint_named_twice_is_refused():
    message = JointState(name=[*NAMES, NAMES[0]], position=[0.0] * 8)
    with pytest.raises(TargetRejected, match="duplicate names"):
        read_joints(message, NAMES)


def test_dotted_parameters_become_the_cell_file_again():
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
def test_a_value_beside_parts_of_it_is_refused(order):
    names = ["arms.left", "arms.left.gripper"][::order]
    with pytest.raises(ConfigurationError, match=r"arms\.left"):
        nested(dict.fromkeys(names, True))


def test_velocities_may_come_without_positions():
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
def test_six_numbers_are_read_as_they_were_serialized_and_every_cut_is_refused(kind, parts, frame):
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
def test_a_pose_in_an_encoding_that_few_write_was_read_as_other_numbers(kind):
    """Extended CDR aligns doubles at a multiple of 4: what rclpy cannot read is refused."""
    order = ">" if kind[1] == 6 else "<"
    frame = b"abcd\0"
    body = struct.pack(f"{order}iII", 12, 345, len(frame)) + frame + bytes(3)
    body += struct.pack(f"{order}7d", 0.1, -0.2, 0.3, 0.0, 0.0, 0.0, 1.0)
    got = []
    with contextlib.suppress(TargetRejected):
        found = read_pose(kind + b"\0\0" + body)
        got = [found.stamp_ns, found.frame, *found.pose.position]
    assert got in ([], [12_000_000_345, "abcd", 0.1, -0.2, 0.3])


def test_what_is_left_to_rclpy_is_read_in_the_same_order(monkeypatch):
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


def test_a_wrench_was_written_in_another_order_than_it_is_read():
    message, wrench = WrenchStamped(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    conversions.write_wrench(message.wrench, wrench)
    found = read_numbers(WrenchStamped, ("force", "torque"), serialize_message(message))
    assert found.numbers == wrench
