# SPDX-License-Identifier: Apache-2.0
"""Remote arms and grippers of a running node."""

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

from multipanda_py.exceptions import NodeRejected, TargetRejected, TopicLost
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
from multipanda_py.ros.client.node_link import Call, LatestMessage, NodeLink
from multipanda_py.ros.node.conversions import read_joints, read_numbers, read_pose
from multipanda_py.state import ArmSnapshot, Vector


class RemoteArm:
    """Client that receives the state topics of one arm.

    Args:
        root: Namespace of the cell with a leading slash, or empty.
        max_age: Age above which a message counts as missing [s].
        all_joints: Subscription to the cell's ``joint_states``, which have the finger positions.
        status: Diagnostics of the cell, with owner and fault of the arm.

    Attributes:
        topics: Subscriptions whose messages :meth:`state` combines.
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        name: str,
        description: ArmDescription,
        max_age: float,
        all_joints: LatestMessage,
        status: NodeStatus,
    ) -> None:
        self.name, self._description = name, description
        self._all_joints, self._reported = all_joints, status
        read_twist = partial(read_numbers, TwistStamped, ("linear", "angular"))
        read_wrench = partial(read_numbers, WrenchStamped, ("force", "torque"))
        self._joints, self._pose, self._twist, self._wrench = (
            link.hear(kind, f"{root}/{name}/{topic}", max_age, read)
            for kind, topic, read in (
                (JointState, "joint_states", None), (PoseStamped, "current_pose", read_pose),
                (TwistStamped, "current_twist", read_twist),
                (WrenchStamped, "external_wrench", read_wrench),
            )
        )  # fmt: skip
        self.topics = [self._joints, self._pose, self._twist, self._wrench]
        if description.gripper is not None:
            self.topics.append(all_joints)

    @property
    def status(self) -> ArmStatus:
        """Owner and fault of the arm in the newest diagnostics."""
        return self._reported.arms[self.name]

    @property
    def stamp(self) -> float:
        """Measurement time of the newest state, by the node's clock [s]."""
        stamp = self._joints.message().header.stamp
        return float(stamp.sec + 1e-9 * stamp.nanosec)

    @property
    def now(self) -> float:
        """Time of the node, estimated from the newest state and its age [s]."""
        return self.stamp + time.monotonic() - self._joints.received_at

    @property
    def width(self) -> float:
        """Measured distance between the fingers [m]; 0 for an arm without a gripper."""
        return float(self._fingers().sum())

    def pose(self) -> Pose:
        """Return the measured pose of the tool in the base of the arm.

        Raises:
            TopicLost: If no pose has been received, or the newest one is too old.
        """
        pose: Pose = self._pose.message().pose
        return pose

    def state(self, time: float) -> ArmSnapshot:
        """Return the newest state of the arm; NaN for quantities that no topic reports.

        Args:
            time: Time of the cell, copied to the result [s].

        Raises:
            TopicLost: If a message for the state is missing, too old, or has values that are not
                finite.
        """
        joints, pose = self._joints.message(), self.pose()
        try:
            q, dq = read_joints(joints, self._description.joint_names)
        except TargetRejected as error:
            raise TopicLost(f"{self._joints.name}: {error}") from None
        n, status = self._description.n_joints, self.status
        state = ArmSnapshot(
            self.name, time, _array_or_nan(q, n), _array_or_nan(dq, n),
            _array_or_nan(joints.effort, n), np.full(n, np.nan), np.full(n, np.nan),
            pose.position, pose.rotation,
            np.array(self._twist.message().numbers), np.array(self._wrench.message().numbers),
            self._fingers(), status.owner, status.fault,
        )  # fmt: skip
        for topic, values in (
            (self._joints, state.q), (self._joints, state.dq),
            (self._twist, state.twist_ee_in_base), (self._wrench, state.wrench_ext_in_base),
        ):  # fmt: skip
            if not np.isfinite(values).all():
                raise TopicLost(f"{topic.name}: got {values.tolist()}, allowed finite numbers")
        return state

    def _fingers(self) -> Vector:
        names = self._description.finger_joint_names
        if not names:
            return np.zeros(2)
        message = self._all_joints.message()
        positions = dict(zip(message.name, message.position))
        try:
            return np.array([positions[name] for name in names])
        except KeyError as error:
            raise TopicLost(f"{self._all_joints.name}: has no joint {error}") from None


def _array_or_nan(values: Any, size: int) -> Vector:
    if values is None or len(values) != size:
        return np.full(size, np.nan)
    return np.array(values)


MOTION_TIMEOUT = 20.0
"""Timeout of a motion of the fingers [s]."""


class NodeHand:
    """Client of one gripper. Its methods send a request and return it without waiting.

    ``poll`` of a request returns None until the node has answered.

    Args:
        link: Link to the node, before :meth:`.NodeLink.start`.

    Thread: one.
    """

    def __init__(self, link: NodeLink, root: str, arm: str, description: ParallelGripper) -> None:
        self.description = description
        self._link, self._topic = link, f"{root}/{arm}/gripper"
        self._action = ActionClient(link.node, GripperAction, f"{self._topic}/gripper_action")
        link.offer(Trigger, f"{self._topic}/close")

    def move(self, width: float) -> HandGoal:
        """Start a motion of the fingers to a width [m]."""
        goal = GripperAction.Goal()
        goal.command.position = width / 2.0  # The action expects the position of one finger.
        return HandGoal(self._action, goal, f"{self._topic}: move to {width:.4f} m")

    def grasp(
        self, width: float, *, force: float = 0.0, epsilon_outer: float = 0.0
    ) -> Call[object]:
        """Start to close the gripper fully or around an object.

        All arguments are ignored; the node uses its default force.
        """

        def read(response: Any) -> object:
            if not response.success:
                raise NodeRejected(f"{self._topic}: {response.message}")
            return response

        return self._link.call(f"{self._topic}/close", Trigger.Request(), read, MOTION_TIMEOUT)


class HandGoal:
    """Goal of a gripper motion, pending until the gripper accepts or rejects it."""

    def __init__(self, client: Any, goal: Any, description: str) -> None:
        self._description = description
        self._future = client.send_goal_async(goal)

    def poll(self) -> object | None:
        """Return the handle of the accepted goal, or None before the answer of the gripper.

        Raises:
            NodeRejected: If the gripper rejects the goal; diagnostics of the arm have the reason.
        """
        if not self._future.done():
            return None
        handle: object = self._future.result()
        if not getattr(handle, "accepted", False):
            raise NodeRejected(
                f"{self._description}: rejected by the gripper, see the diagnostics of the arm"
            )
        return handle


_MIN_OBJECT_WIDTH = 1e-3
"""Finger distance above which a closed gripper counts as holding an object [m]. A command within
this distance of the maximum width counts as full opening."""


class RemoteGripper(Gripper):
    """Client of one gripper that can open, close and stop; a new command replaces an older one."""

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
        """Return the measured width, and whether the gripper moves or holds an object."""
        motion, width = self._motion, self._measured.width
        closed = motion is not None and motion.command.action is Action.GRASP and motion.done
        return GripperState(
            width, self.description.max_width, closed and width > _MIN_OBJECT_WIDTH,
            motion is not None and not motion.done,
        )  # fmt: skip

    def start(self, command: GripperCommand) -> GripperMotion:
        """Start to open fully, to close around an object, or to stop.

        Raises:
            TargetRejected: If the command is any other, such as a move to a given width.
            TopicLost: If the node has no service for the command, such as ``gripper/open``.
        """
        names = {Action.MOVE: "open", Action.GRASP: "close", Action.STOP: "stop"}
        name = names.get(command.action, "")
        if not name or (
            name == "open" and command.width < self.description.max_width - _MIN_OBJECT_WIDTH
        ):
            raise TargetRejected(
                f"gripper of {self.arm}: got {command}, allowed only to open fully, "
                "to close and to stop"
            )
        service = f"{self._root}/{name}"
        if not self._link.is_discovered(service):
            raise TopicLost(f"service {service}: not found. Check that the node is active")
        call = self._link.call(service, Trigger.Request(), self._read, math.inf)
        self._motion = GripperMotion(command, call.poll, self._wait)
        return self._motion

    def _read(self, answer: Any) -> GripperResult:
        done = Outcome.SUCCEEDED if answer.success else Outcome.UNSUCCESSFUL
        return GripperResult(done, self._measured.width, answer.message)

    def _wait(self, condition: Any, timeout: float, description: str) -> None:
        if not self._link.until(condition, timeout):
            raise TopicLost(
                f"gripper of {self.arm}: {description} was not reached within {timeout:g} s"
            )
