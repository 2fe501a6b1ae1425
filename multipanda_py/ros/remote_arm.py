# SPDX-License-Identifier: Apache-2.0
"""One arm of a running node, as a client knows it: its state by topics, and who has it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState

from multipanda_py.exceptions import TargetRejected, TopicLost
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.conversions import read_joints, read_numbers, read_pose
from multipanda_py.ros.heard_topic import HeardTopic
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.node_status import ArmStatus, NodeStatus
from multipanda_py.state import ArmSnapshot, Vector


class RemoteArm:
    """Read what a node says of an arm.

    Args:
        link: Hears.
        root: Namespace of the cell, with a slash in front, or nothing.
        name: Of the arm.
        description: What it is.
        stale: How old a state may be [s].
        merged: The cell's ``joint_states``, for the fingers.
        said: What diagnostics say of the cell.

    Attributes:
        topics: What has to be heard.
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        name: str,
        description: ArmDescription,
        stale: float,
        merged: HeardTopic,
        said: NodeStatus,
    ) -> None:
        self.name, self._description = name, description
        self._merged, self._said = merged, said
        read_twist = partial(read_numbers, TwistStamped, ("linear", "angular"))
        read_wrench = partial(read_numbers, WrenchStamped, ("force", "torque"))
        self._joints, self._pose, self._twist, self._wrench = (
            link.hear(kind, f"{root}/{name}/{topic}", stale, read)
            for kind, topic, read in (
                (JointState, "joint_states", None), (PoseStamped, "current_pose", read_pose),
                (TwistStamped, "current_twist", read_twist),
                (WrenchStamped, "external_wrench", read_wrench),
            )
        )  # fmt: skip
        self.topics = [self._joints, self._pose, self._twist, self._wrench]
        if description.gripper is not None:
            self.topics.append(merged)

    @property
    def status(self) -> ArmStatus:
        """Who has it, and what is wrong, as diagnostics have said last."""
        return self._said.arms[self.name]

    @property
    def stamp(self) -> float:
        """When its newest state was measured, by the node's clock [s]."""
        stamp = self._joints.message().header.stamp
        return float(stamp.sec + 1e-9 * stamp.nanosec)

    @property
    def now(self) -> float:
        """The node's time, by the newest state and how long ago it came [s]."""
        return self.stamp + time.monotonic() - self._joints.heard

    @property
    def width(self) -> float:
        """Between the fingers [m]."""
        return float(self._fingers().sum())

    def pose(self) -> Pose:
        """Return the measured pose of the tool in the base of the arm.

        Raises:
            TopicLost: If it is too old, or none.
        """
        pose: Pose = self._pose.message().pose
        return pose

    def state(self, time: float) -> ArmSnapshot:
        """Return its newest state; what no topic has is nan.

        Args:
            time: Of the cell [s].

        Raises:
            TopicLost: If a part of it is too old, or no number.
        """
        joints, pose = self._joints.message(), self.pose()
        try:
            q, dq = read_joints(joints, self._description.joint_names)
        except TargetRejected as error:
            raise TopicLost(f"{self._joints.name}: {error}") from None
        n, status = self._description.n_joints, self.status
        found = ArmSnapshot(
            self.name, time, _array(q, n), _array(dq, n), _array(joints.effort, n),
            np.full(n, np.nan), np.full(n, np.nan), pose.position, pose.rotation,
            np.array(self._twist.message().numbers), np.array(self._wrench.message().numbers),
            self._fingers(), status.owner, status.fault,
        )  # fmt: skip
        for topic, values in (
            (self._joints, found.q), (self._joints, found.dq),
            (self._twist, found.twist_ee_in_base), (self._wrench, found.wrench_ext_in_base),
        ):  # fmt: skip
            if not np.isfinite(values).all():
                raise TopicLost(f"{topic.name}: got {values.tolist()}, allowed finite numbers")
        return found

    def _fingers(self) -> Vector:
        names = self._description.finger_joint_names
        if not names:
            return np.zeros(2)
        message = self._merged.message()
        positions = dict(zip(message.name, message.position))
        try:
            return np.array([positions[name] for name in names])
        except KeyError as error:
            raise TopicLost(f"{self._merged.name}: has no {error}") from None


def _array(values: Any, size: int) -> Vector:
    """Return numbers, or as many nan where there are not as many."""
    if values is None or len(values) != size:
        return np.full(size, np.nan)
    return np.array(values)
