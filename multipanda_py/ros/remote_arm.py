# SPDX-License-Identifier: Apache-2.0
"""One arm of a running node, as a client knows it: its state by topics, and who has it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState

from multipanda_py.exceptions import TargetRejected, TopicLost
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client_link import ClientLink, HeardTopic
from multipanda_py.ros.conversions import read_joints
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

    Attributes:
        topics: What has to be heard.
    """

    def __init__(
        self,
        link: ClientLink,
        root: str,
        name: str,
        description: ArmDescription,
        stale: float,
        merged: HeardTopic,
    ) -> None:
        self.name, self._description, self._merged = name, description, merged
        self._joints, self._pose, self._twist, self._wrench = (
            link.hear(kind, f"{root}/{name}/{topic}", stale)
            for kind, topic in (
                (JointState, "joint_states"), (PoseStamped, "current_pose"),
                (TwistStamped, "current_twist"), (WrenchStamped, "external_wrench"),
            )
        )  # fmt: skip
        self.topics = [self._joints, self._pose, self._twist, self._wrench]
        if description.gripper is not None:
            self.topics.append(merged)
        self._status: dict[str, str] = {}
        self.told = -1e9

    def tell(self, status: dict[str, str]) -> None:
        """Take what diagnostics say of the arm."""
        self._status, self.told = status, time.monotonic()

    @property
    def owner(self) -> str:
        """Name of the controllet that has the arm, as diagnostics have said last."""
        return self._status.get("owner", "")

    @property
    def fault(self) -> str:
        """Name of the latched fault, or an empty string; likewise."""
        fault = self._status.get("fault", "none")
        return "" if fault == "none" else fault

    @property
    def refused(self) -> tuple[int, str]:
        """How many targets the node has refused, and why the last one; likewise."""
        return int(self._status.get("refused targets", 0)), self._status.get("last refusal", "")

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
        pose = self._pose.message().pose
        try:
            quaternion = [*_xyz(pose.orientation), pose.orientation.w]
            return Pose.from_quaternion(_xyz(pose.position), quaternion)
        except TargetRejected as error:
            raise TopicLost(f"{self._pose.name}: {error}") from None

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
        twist, wrench = self._twist.message().twist, self._wrench.message().wrench
        n = self._description.n_joints
        found = ArmSnapshot(
            self.name, time, _array(q, n), _array(dq, n), _array(joints.effort, n),
            np.full(n, np.nan), np.full(n, np.nan), pose.position, pose.rotation,
            np.array([*_xyz(twist.linear), *_xyz(twist.angular)]),
            np.array([*_xyz(wrench.force), *_xyz(wrench.torque)]),
            self._fingers(), self.owner, self.fault,
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


def _xyz(part: Any) -> list[float]:
    return [part.x, part.y, part.z]


def _array(values: Any, size: int) -> Vector:
    """Return numbers, or as many nan where there are not as many."""
    if values is None or len(values) != size:
        return np.full(size, np.nan)
    return np.array(values)
