# SPDX-License-Identifier: Apache-2.0
"""Target topics: valid targets move the arms, invalid ones have no effect."""

from __future__ import annotations

import copy
import math
import time

import numpy as np
import pytest
from cell_names import LEFT_JOINTS
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import serialize_message
from real_rig import position
from sensor_msgs.msg import JointState

from multipanda_py.ros.node.qos import LATCHED

pytestmark = [pytest.mark.node, pytest.mark.workspace]


def pose_now(client):
    return client.newest(PoseStamped, "/left/current_pose")


def joints_now(client):
    message = client.newest(JointState, "/left/joint_states")
    assert list(message.name) == LEFT_JOINTS
    return np.array(message.position)


def target_like(pose, frame="left_fr3_link0", offset=(0.0, 0.0, 0.0)):
    target = copy.deepcopy(pose)
    target.header.frame_id = frame
    target.header.stamp.sec = target.header.stamp.nanosec = 0
    point = target.pose.position
    point.x, point.y, point.z = (float(x) for x in position(pose) + offset)
    return target


def reach(client, target, goal):
    """Stream a target until the measured pose is within 5 mm of ``goal``."""
    get = client.listen(PoseStamped, "/left/current_pose")
    client.stream(
        "/left/target_pose",
        target,
        lambda: np.linalg.norm(position(get()) - goal) < 0.005,
        f"arm within 5 mm of {goal}",
    )


def left_status(cell, client):
    return client.diagnosis(f"{cell.name}/left")[1]


def resting(client):
    """Wait until the arm is at rest; return its joint positions."""
    get = client.listen(JointState, "/left/joint_states")
    client.until(lambda: get() and max(map(abs, get().velocity)) < 1e-3, 10.0, "rest")
    return joints_now(client)


def check_rejected(cell, client, topic, message, reason):
    """Stream a message until the diagnostics report its rejection."""
    before = int(left_status(cell, client)["rejected targets"])

    def observed():
        status = left_status(cell, client)
        return int(status["rejected targets"]) > before and reason in status["last rejection"]

    client.stream(f"/left/{topic}", message, observed, reason)


def test_arm_follows_pose_stream(cell, client):
    start = pose_now(client)
    for number in range(1, 21):
        offset = np.array([0.03, 0.0, 0.03]) * number / 20
        client.publish("/left/target_pose", target_like(start, offset=offset))
        due = time.monotonic() + 0.05
        client.until(lambda due=due: time.monotonic() >= due)
    reach(client, target_like(start, offset=offset), position(start) + offset)


def test_target_in_world_frame_is_transformed(cell, client):
    start = pose_now(client)
    base_and_step = (0.0, 0.3, -0.03)
    goal = position(start) + (0.0, 0.0, -0.03)
    reach(client, target_like(start, "world", base_and_step), goal)


def test_joint_target_accepts_names_in_any_order(cell, client):
    assert client.switch(["joint_impedance_controller"], (), 4, "/left").ok
    goal = joints_now(client) + [0.05, -0.04, 0.03, 0.02, -0.05, 0.04, 0.06]
    order = [3, 0, 6, 1, 5, 2, 4]
    target = JointState(
        name=[LEFT_JOINTS[i] for i in order], position=[float(goal[i]) for i in order]
    )
    get = client.listen(JointState, "/left/joint_states")
    client.stream(
        "/left/target_joint",
        target,
        lambda: np.abs(np.array(get().position) - goal).max() < 0.005,
        "joint configuration",
    )


def invalidate(target, case, client):
    """Invalidate a target; return a part of the expected reason."""
    point, quaternion = target.pose.position, target.pose.orientation
    if case == "nan":
        point.y = math.nan
        return "allowed finite numbers"
    if case == "zero quaternion":
        quaternion.x = quaternion.y = quaternion.z = quaternion.w = 0.0
        return "quaternion: got norm 0"
    if case == "unknown frame":
        target.header.frame_id = "base_link"
        return "frame 'base_link' is unknown; known: world, left_fr3_link0, right_fr3_link0, base"
    if case == "too far":
        point.x += 0.5
        return "(gate.position)"
    if case == "stale":
        now = client.node.get_clock().now().nanoseconds
        target.header.stamp.sec, target.header.stamp.nanosec = divmod(now - 5_000_000_000, 10**9)
        return "s old, allowed 1 s (max_target_age)"
    if case == "from the future":
        now = client.node.get_clock().now().nanoseconds
        target.header.stamp.sec, target.header.stamp.nanosec = divmod(now + 10**11, 10**9)
        return "s in the future, allowed 0.2 s"
    point.x, point.y, point.z = 0.0, 0.0, 1e300
    return "allowed 0.15 m"


@pytest.mark.parametrize(
    "case",
    ["nan", "zero quaternion", "unknown frame", "too far", "stale", "from the future", "huge"],
)
def test_invalid_pose_is_rejected_counted_and_without_effect(cell, client, case):
    q = resting(client)
    target = target_like(pose_now(client))
    reason = invalidate(target, case, client)
    check_rejected(cell, client, "target_pose", target, reason)
    assert np.abs(joints_now(client) - q).max() < 2e-3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.name.__setitem__(2, "joint3"), "left_fr3_joint3 missing; expected"),
        (lambda m: (m.name.append("finger"), m.position.append(0.0)), "finger unknown"),
        (lambda m: m.position.pop(), "position: got 6 numbers for 7 names"),
        (lambda m: m.position.__setitem__(0, math.nan), "finite"),
        (lambda m: m.position.__setitem__(3, 0.3), "joint 4 of left"),
    ],
    ids=["wrong name", "extra name", "too few", "nan", "outside limits"],
)
def test_invalid_joints_are_rejected_counted_and_without_effect(cell, client, change, reason):
    q = resting(client)
    message = JointState(name=list(LEFT_JOINTS), position=[float(x) for x in q])
    change(message)
    check_rejected(cell, client, "target_joint", message, reason)
    assert np.abs(joints_now(client) - q).max() < 2e-3


def test_target_unsupported_by_active_controllet_is_rejected(cell, client):
    assert client.switch(["joint_impedance_controller"], (), 4, "/left").ok
    reason = "accepts joint, got pose. Switch to another controllet first"
    check_rejected(cell, client, "target_pose", target_like(pose_now(client)), reason)


def test_rejected_stream_was_logged_every_second(cell, client):
    """Every message is counted; a change of numbers alone is not logged."""
    warned = lambda: cell.log.count("'of_a_stream' is unknown")  # noqa: E731
    target = target_like(pose_now(client), "of_a_stream")
    refused = int(left_status(cell, client)["rejected targets"])
    client.stream("/left/target_pose", target, warned, "a warning")
    started = time.monotonic()
    while time.monotonic() < started + 2.2:
        target.pose.position.x += 0.001
        client.publish("/left/target_pose", target)
        client.until(lambda: True)
    assert warned() == 1
    client.until(
        lambda: int(left_status(cell, client)["rejected targets"]) > refused + 10, 10.0, "counted"
    )


def test_unreadable_message_was_not_counted(cell, client):
    """The message is truncated; rclpy drops it silently."""
    cut = bytes(serialize_message(JointState(name=LEFT_JOINTS, position=[0.0] * 7)))[:40]
    received, refused = (
        int(left_status(cell, client)[key]) for key in ("target messages", "rejected targets")
    )
    publisher = client.node.create_publisher(JointState, "/left/target_joint", 1)
    client.until(publisher.get_subscription_count, 10.0, "a subscriber")

    def counted():
        publisher.publish(cut)
        values = left_status(cell, client)
        return int(values["rejected targets"]) > refused + 1

    client.until(counted, 10.0, "a count")
    client.until(lambda: "not a valid JointState" in left_status(cell, client)["last rejection"])
    values = left_status(cell, client)
    assert int(values["target messages"]) - received == int(values["rejected targets"]) - refused


def test_frame_name_of_any_length_was_repeated_in_diagnostics(cell, client):
    message = target_like(pose_now(client))
    message.header.frame_id = "a" * 60_000
    check_rejected(
        cell, client, "target_pose", message, "is unknown; known: world, left_fr3_link0"
    )
    assert len(left_status(cell, client)["last rejection"]) < 1100


def test_publisher_of_rejected_targets_received_no_feedback(cell, client):
    """``target_status`` of the arm reports acceptance, rejection and acceptance again."""
    status = client.listen(DiagnosticStatus, "/left/target_status", LATCHED)
    start = pose_now(client)
    topic, counts = "/left/target_pose", []

    def last_text_contains(level, text):
        found = status()
        if not found or found.level != level or text not in found.message:
            return False
        values = {item.key.removeprefix("pose "): item.value for item in found.values}
        counts.append({key: int(values[key]) for key in ("received", "rejected")})
        return True

    near, far = target_like(start), target_like(start, offset=(0.0, 0.0, 3.0))
    client.stream(
        topic, near, lambda: last_text_contains(DiagnosticStatus.OK, "accepted"), "accepted"
    )
    client.stream(
        topic, far, lambda: last_text_contains(DiagnosticStatus.WARN, "pose rejected: "), "refused"
    )
    client.stream(
        topic, near, lambda: last_text_contains(DiagnosticStatus.OK, "accepted"), "accepted again"
    )
    accepted, refused, again = counts
    assert refused["rejected"] > accepted["rejected"]
    assert again["received"] > refused["received"] > accepted["received"]
