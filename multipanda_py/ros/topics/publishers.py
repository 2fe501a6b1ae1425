# SPDX-License-Identifier: Apache-2.0
"""Publishers of arm states, transforms, object poses, introspection data and camera images."""

from __future__ import annotations

import contextlib
import json
import subprocess
from array import array
from collections.abc import Iterable, Iterator
from itertools import compress

import numpy as np
from geometry_msgs.msg import PoseStamped, Transform, TransformStamped, TwistStamped, WrenchStamped
from numpy.typing import NDArray
from pal_statistics_msgs.msg import StatisticsNames, StatisticsValues
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from multipanda_py.cell import Cell
from multipanda_py.config.describe import describe_objects, movable_objects
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.realtime.system.child_process import end_with_parent, ended, module_command
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.arm import MovingLinks, fixed_links
from multipanda_py.robots.urdf import cell_urdf
from multipanda_py.ros.compat.franka_services import franka_arms
from multipanda_py.ros.compat.franka_topics import FrankaTopics
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.conversions import WORLD
from multipanda_py.ros.node.qos import DATA_QOS, LATCHED, TRANSFORM_QOS
from multipanda_py.ros.node.running import every
from multipanda_py.ros.topics.actuators import ActuatorTopics
from multipanda_py.ros.topics.state_topic import Fresh, FreshStates, Pace, Stamp, StateTopic
from multipanda_py.state import Vector

_XYZ = ("x", "y", "z")
INTROSPECTION_TOPIC = "introspection_data"
CAMERA_END_TIMEOUT = 5.0
"""Timeout for the end of the process of the cameras [s]."""


class _MovingTransforms:
    """Messages of moving transforms, which are created once and filled for each publication."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.transforms = [_stamped(parent, child) for parent, child in pairs]
        self._stamps = [item.header.stamp for item in self.transforms]
        self._parts = [(t.transform.translation, t.transform.rotation) for t in self.transforms]

    def fill(
        self, stamp: Stamp, positions: NDArray[np.float64], xyzw: NDArray[np.float64]
    ) -> list[TransformStamped]:
        for own in self._stamps:
            own.sec, own.nanosec = stamp
        for (position, orientation), p, quaternion in zip(
            self._parts, positions.tolist(), xyzw.tolist()
        ):
            position.x, position.y, position.z = p
            orientation.x, orientation.y, orientation.z, orientation.w = quaternion
        return self.transforms


class Transforms:
    """Publisher of the transforms of all links, and of the objects in the world.

    Fixed transforms are published once, latched for late subscribers.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._pace = Pace(cell.config.cell.tf_rate)
        arms = list(cell.descriptions.values())
        # The product of the transforms from base to ``ee_frame`` is the current_pose.
        self._links = [MovingLinks(arm) for arm in arms]
        self._arms = [
            _MovingTransforms((a.parent, a.child) for a in links.links) for links in self._links
        ]
        movable = movable_objects(cell.config)
        self._objects = _MovingTransforms((WORLD, name) for name in movable)
        self._fixed = node.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._fixed.publish(TFMessage(transforms=list(_fixed_transforms(cell, arms, movable))))
        self._moving = node.create_publisher(TFMessage, "/tf", TRANSFORM_QOS)

    def send(self, fresh: Fresh) -> None:
        """Publish the transforms if there are subscribers, at most at ``tf_rate``."""
        if self._pace.is_due(fresh.row) and self._moving.get_subscription_count():
            self._moving.publish(TFMessage(transforms=self._transforms(fresh)))

    def _transforms(self, fresh: Fresh) -> list[TransformStamped]:
        records = fresh.row["arms"]
        result: list[TransformStamped] = []
        for index, stamp in zip(fresh.arms, fresh.stamps):
            links, record = self._links[index], records[index]
            result += self._arms[index].fill(
                stamp, *links.forward_kinematics(record["q"], record["finger_positions"])
            )
        objects = fresh.row["object_poses"]
        scene_objects = self._objects.fill(fresh.stamp, objects[:, :3], objects[:, [4, 5, 6, 3]])
        result += compress(scene_objects, fresh.row["object_present"].tolist())
        return result


def _fixed_transforms(
    cell: Cell, arms: Iterable[ArmDescription], movable: Iterable[str]
) -> Iterator[TransformStamped]:
    for arm in arms:
        for link in fixed_links(arm):
            transform = _transform(link.origin.position, link.origin.rotation)
            yield _stamped(link.parent, link.child, transform)
    for obj in describe_objects(cell.config):
        if obj.name not in movable:
            yield _stamped(WORLD, obj.name, _transform(obj.position, obj.rotation))


def _transform(position: Iterable[float], rotation: NDArray[np.float64]) -> Transform:
    result = Transform()
    translation, angle = result.translation, result.rotation
    translation.x, translation.y, translation.z = map(float, position)
    angle.x, angle.y, angle.z, angle.w = quaternion_from_rotation(rotation)
    return result


def _stamped(parent: str, child: str, transform: Transform | None = None) -> TransformStamped:
    header = Header(frame_id=parent)
    return TransformStamped(
        header=header, child_frame_id=child, transform=transform or Transform()
    )


class _ArmTopics:
    """Topics of one arm: joint states, and pose, twist and wrench along the axes of its base."""

    def __init__(self, node: Node, cell: Cell, arm: str, plain_names: bool) -> None:
        base = cell.frames.base_of(arm)
        self.joints = StateTopic(node, JointState, f"{arm}/joint_states")
        prefix = f"{arm}_" if plain_names else ""
        names = cell.descriptions[arm].joint_names
        self.joints.message.name = [name.removeprefix(prefix) for name in names]
        self.pose = StateTopic(node, PoseStamped, f"{arm}/current_pose", base)
        self.twist = StateTopic(node, TwistStamped, f"{arm}/current_twist", base)
        self.wrench = StateTopic(node, WrenchStamped, f"{arm}/external_wrench", base)

    def send(self, record: NDArray[np.void], stamp: tuple[int, int]) -> None:
        read = record.__getitem__
        if self.joints.has_subscribers():
            message = self.joints.message
            message.position = array("d", read("q").tobytes())
            message.velocity = array("d", read("dq").tobytes())
            message.effort = array("d", read("tau_J").tobytes())
            self.joints.send(stamp)
        if self.pose.has_subscribers():
            pose = self.pose.message.pose
            _fill(pose.position, _XYZ, read("position_ee_in_base").tolist())
            quaternion = quaternion_from_rotation(read("rotation_ee_in_base"))
            _fill(pose.orientation, ("x", "y", "z", "w"), quaternion)
            self.pose.send(stamp)
        for topic, field, parts in (
            (self.twist, "twist_ee_in_base", ("linear", "angular")),
            (self.wrench, "wrench_ext_in_base", ("force", "torque")),
        ):
            if topic.has_subscribers():
                body = topic.message.twist if topic is self.twist else topic.message.wrench
                values = read(field).tolist()
                _fill(getattr(body, parts[0]), _XYZ, values[:3])
                _fill(getattr(body, parts[1]), _XYZ, values[3:])
                topic.send(stamp)


class StatePublishers:
    """Publishers of all state topics of the cell, driven by one timer.

    Each state is published once, with its measurement time. Topics of several arms omit arms
    without a new state.

    Args:
        plain_names: True to publish joint names without the name of the arm as prefix.
        franka_names: True to publish the topics of franka_ros2, too.

    Thread: executor.
    """

    def __init__(
        self,
        node: Node,
        cell: Cell,
        clock: NodeClock,
        plain_names: bool = False,
        franka_names: bool = False,
    ) -> None:
        self._fresh = FreshStates(cell, clock)
        settings = cell.config.cell
        self._others: list[ActuatorTopics | Transforms | Introspection | FrankaTopics] = []
        if any(arm.actuated is not None for arm in cell.descriptions.values()):
            self._others.append(ActuatorTopics(node, cell, plain_names))
        if franka_names:
            self._others.append(FrankaTopics(node, cell, franka_arms(cell)))
        if settings.tf_rate:
            self._others.append(Transforms(node, cell))
        if settings.introspection_rate:
            self._others.append(Introspection(node, cell))
        self._arms = [_ArmTopics(node, cell, arm, plain_names) for arm in cell.arms]
        self._all_joints = StateTopic(node, JointState, "joint_states")
        arms = list(cell.descriptions.values())
        self._fingers = [arm.finger_joint_names for arm in arms]
        self._names = [[*arm.joint_names, *arm.finger_joint_names] for arm in arms]
        self._in_message: list[int] = []
        objects = movable_objects(cell.config)
        self._objects = [
            StateTopic(node, PoseStamped, f"objects/{n}/pose", "world") for n in objects
        ]
        self._description = node.create_publisher(String, "robot_description", LATCHED)
        self._description.publish(String(data=cell_urdf(arms, settings.name)))
        every(node, 1.0 / settings.joint_state_rate, self._tick)

    def _tick(self) -> None:
        fresh = self._fresh.poll()
        if fresh is None:
            return
        records, new = fresh.row["arms"], fresh.arms
        for index, stamp in zip(new, fresh.stamps):
            self._arms[index].send(records[index], stamp)
        if self._all_joints.has_subscribers():
            message = self._all_joints.message
            if new != self._in_message:
                self._in_message = new
                message.name = [name for index in new for name in self._names[index]]
            message.position = self._concatenate(records, new, "q", "finger_positions")
            message.velocity = self._concatenate(records, new, "dq")
            message.effort = self._concatenate(records, new, "tau_J")
            self._all_joints.send(fresh.stamp)
        there = fresh.row["object_present"].tolist()
        for topic, pose, is_present in zip(self._objects, fresh.row["object_poses"], there):
            if is_present and topic.has_subscribers():
                position, (w, *xyz) = pose[:3].tolist(), pose[3:].tolist()
                _fill(topic.message.pose.position, _XYZ, position)
                _fill(topic.message.pose.orientation, ("x", "y", "z", "w"), (*xyz, w))
                topic.send(fresh.stamp)
        for other in self._others:
            other.send(fresh)

    def _concatenate(
        self, records: NDArray[np.void], arms: Iterable[int], field: str, fingers: str = ""
    ) -> array[float]:
        """Return the joint values of each arm, followed by its finger values or zeros."""
        values = array("d")
        for index in arms:
            record = records[index]
            values.frombytes(record[field].tobytes())
            if self._fingers[index]:
                values.frombytes(record[fingers].tobytes() if fingers else bytes(16))
        return values


def _fill(part: object, names: Iterable[str], values: Iterable[float]) -> None:
    for name, value in zip(names, values):
        setattr(part, name, value)


class Introspection:
    """Publisher of named values, and of the list of their names when it changes.

    - ``<arm>/tau/<joint>``: commanded torque [Nm], the sum of the next four terms.
    - ``<arm>/law/<joint>``: torque of the control law [Nm].
    - ``<arm>/<feature>/<joint>``: torque of a feature [Nm].
    - ``<arm>/blend/<joint>``: transition from the torque of the previous controllet [Nm].
    - ``<arm>/bounds/<joint>``: change of the torque by the limits of value and rate [Nm].
    - ``<arm>/tau_ext/<joint>``: external torque [Nm].
    - ``<controllet>/<report>``: report of an active controllet.
    - ``loop/...``: lateness and computation time of the cycle [us].

    Every message of values has the version number of its list of names.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._cell, self._pace = cell, Pace(cell.config.cell.introspection_rate)
        self._follower = cell.follow_records()
        self._reporting = [spec for spec in cell.specs if spec.controllet_class.report_names]
        self._joints = {
            arm: [joint.name for joint in description.robot.joints]
            for arm, description in cell.descriptions.items()
        }
        self._names: list[str] = []
        self._version, self._is_traced = 0, False
        self._name_topic = node.create_publisher(
            StatisticsNames, f"{INTROSPECTION_TOPIC}/names", LATCHED
        )
        self._value_topic = node.create_publisher(
            StatisticsValues, f"{INTROSPECTION_TOPIC}/values", DATA_QOS
        )

    def send(self, fresh: Fresh) -> None:
        """Publish the values if there are subscribers, at most at ``introspection_rate``."""
        if not self._pace.is_due(fresh.row):
            return
        has_subscribers = bool(self._value_topic.get_subscription_count())
        if has_subscribers != self._is_traced:
            self._is_traced = has_subscribers
            self._cell.trace_torques(has_subscribers)
        if not has_subscribers:
            return
        numbers = self._numbers(fresh.row)
        if list(numbers) != self._names:
            self._names = list(numbers)
            self._version += 1
            named = StatisticsNames(names=self._names, names_version=self._version)
            named.header.stamp.sec, named.header.stamp.nanosec = fresh.stamp
            self._name_topic.publish(named)
        message = StatisticsValues(names_version=self._version)
        message.header.stamp.sec, message.header.stamp.nanosec = fresh.stamp
        message.values = array("d", numbers.values())
        self._value_topic.publish(message)

    def _numbers(self, row: NDArray[np.void]) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for arm, record in zip(self._cell.arms, row["arms"]):
            vectors: dict[str, Vector] = {"tau": record["tau"], "tau_ext": record["tau_ext"]}
            vectors.update(self._follower.terms(row, arm))
            for name, vector in vectors.items():
                for joint, value in zip(self._joints[arm], vector.tolist()):
                    numbers[f"{arm}/{name}/{joint}"] = value
        active = self._cell.active
        for spec in self._reporting:
            if spec.name in active:
                values = row["reports"][spec.index].tolist()
                for title, value in zip(spec.controllet_class.report_names, values):
                    numbers[f"{spec.name}/{title}"] = value
        numbers["loop/lateness [us]"] = 1e-3 * float(row["wake_ns"] - row["deadline_ns"])
        numbers["loop/compute [us]"] = 1e-3 * float(row["compute_ns"])
        return numbers


class SceneCameras:
    """Child process that renders the cameras of a cell file.

    Attributes:
        process: Process that renders; None without cameras.

    Thread: main. The process ends with the thread that has started it.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._logger = node.get_logger()
        self.process: subprocess.Popen[bytes] | None = None
        if not cell.config.cameras:
            return
        fd = cell.shared_memory_fd
        process = self.process = subprocess.Popen(
            module_command("multipanda_py.ros.topics.camera_node", str(fd), node.get_namespace()),
            stdin=subprocess.PIPE, pass_fds=(fd,), preexec_fn=end_with_parent,
            start_new_session=True,  # Ctrl-C reaches the node only, which then ends this process.
        )  # fmt: skip
        options = {
            "cell": json.loads(cell.config.model_dump_json()),
            "use_sim_time": bool(node.get_parameter("use_sim_time").value),
        }
        # If the process has ended already, it has logged the reason.
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(json.dumps(options).encode() + b"\n")
                process.stdin.flush()

    def check(self) -> None:
        """Warn once if the process has ended with an error; the cell continues."""
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode:
            self._logger.warning(
                "images of the scene have stopped: the process that renders ended with code "
                f"{self.process.returncode}"
            )
        self.process = None

    def close(self) -> None:
        """End the process; safe to call twice."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.close()
        ended(process, CAMERA_END_TIMEOUT)
