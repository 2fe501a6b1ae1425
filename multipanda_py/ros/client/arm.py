# SPDX-License-Identifier: Apache-2.0
"""A hand of a running node, which opens and closes by services."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand as GripperAction
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from multipanda_py.exceptions import NodeRefused, TargetRejected, TopicLost
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.gripper import (
    Action,
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
    Outcome,
)
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.ros.client.cell_state import ArmStatus, NodeStatus
from multipanda_py.ros.client.node_link import HeardTopic, NodeLink
from multipanda_py.ros.client.service_call import Call
from multipanda_py.ros.node.conversions import read_joints, read_numbers, read_pose
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


MOVES = 20.0
"""Time for the fingers to come to where they are to be [s]."""


class NodeHand:
    """Ask for motions of one hand.

    Args:
        link: To the node; not started yet.
        root: Namespace of the cell, with a slash in front, or nothing.
        arm: Name of the arm.
        description: What the hand can do.

    Attributes:
        description: Likewise.

    Thread: one.
    """

    def __init__(self, link: NodeLink, root: str, arm: str, description: ParallelGripper) -> None:
        self.description = description
        self._link, self._place = link, f"{root}/{arm}/gripper"
        self._action = ActionClient(link.node, GripperAction, f"{self._place}/gripper_action")
        link.offer(Trigger, f"{self._place}/close")

    def move(self, width: float) -> HandGoal:
        """Begin to take the fingers to a width [m]."""
        goal = GripperAction.Goal()
        goal.command.position = width / 2.0  # of one finger
        return HandGoal(self._action, goal, f"{self._place}: move to {width:.4f} m")

    def grasp(
        self, width: float, *, force: float = 0.0, epsilon_outer: float = 0.0
    ) -> Call[object]:
        """Begin to close them on whatever is there, with the force that the node has for it."""

        def read(said: Any) -> object:
            if not said.success:
                raise NodeRefused(f"{self._place}: {said.message}")
            return said

        return self._link.call(f"{self._place}/close", Trigger.Request(), read, MOVES)


class HandGoal:
    """A goal of a hand, until it is known whether it is taken.

    Args:
        client: Of the action.
        goal: What is asked.
        what: The same in words.
    """

    def __init__(self, client: Any, goal: Any, what: str) -> None:
        self._what = what
        self._future = client.send_goal_async(goal)

    def look(self) -> object | None:
        """Return the goal's handle, or None while there is none.

        Raises:
            NodeRefused: If the hand does not take it; why is in the arm's diagnostics.
        """
        if not self._future.done():
            return None
        handle: object = self._future.result()
        if not getattr(handle, "accepted", False):
            raise NodeRefused(f"{self._what}: the hand has refused it")
        return handle


_APART = 1e-3
"""Fingers that are further apart after they have closed hold something [m]."""


class RemoteGripper(Gripper):
    """Open a hand, close it around what is there, or stop it; the newest command counts.

    Args:
        link: Asks.
        root: Namespace of the cell.
        arm: Measures.
        description: What the hand can do.
    """

    def __init__(
        self, link: NodeLink, root: str, arm: RemoteArm, description: ParallelGripper
    ) -> None:
        super().__init__(arm.name, description)
        self._link, self._measured = link, arm
        self._root = f"{root}/{arm.name}/gripper"
        for name in ("open", "close", "stop"):
            link.offer(Trigger, f"{self._root}/{name}")
        self._motion: GripperMotion | None = None

    def state(self) -> GripperState:
        """Return what was measured last."""
        motion, width = self._motion, self._measured.width
        closed = motion is not None and motion.command.action is Action.GRASP and motion.done
        return GripperState(
            width, self.description.max_width, closed and width > _APART,
            motion is not None and not motion.done,
        )  # fmt: skip

    def start(self, command: GripperCommand) -> GripperMotion:
        """Begin to open, to close around whatever is there, or to stop.

        Raises:
            TargetRejected: If it is another command.
            TopicLost: If the node does not offer it.
        """
        names = {Action.MOVE: "open", Action.GRASP: "close", Action.STOP: "stop"}
        name = names.get(command.action, "")
        if not name or (name == "open" and command.width < self.description.max_width - _APART):
            raise TargetRejected(
                f"gripper of {self.arm}: got {command}, allowed to open, to close and to stop"
            )
        service = f"{self._root}/{name}"
        if not self._link.is_found(service):
            raise TopicLost(f"service {service}: not there")
        call = self._link.call(service, Trigger.Request(), self._read, math.inf)
        self._motion = GripperMotion(command, call.look, self._wait)
        return self._motion

    def _read(self, answer: Any) -> GripperResult:
        done = Outcome.SUCCEEDED if answer.success else Outcome.UNSUCCESSFUL
        return GripperResult(done, self._measured.width, answer.message)

    def _wait(self, condition: Any, timeout: float, what: str) -> None:
        if not self._link.until(condition, timeout):
            raise TopicLost(f"gripper of {self.arm}: {what} did not come within {timeout:g} s")
