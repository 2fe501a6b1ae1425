# SPDX-License-Identifier: Apache-2.0
"""Topics with the names of franka_ros2: ``franka_robot_state_broadcaster`` and gripper.

``robot_state``, which has all quantities in one message, requires franka_msgs.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState

from multipanda_py.cell import Cell
from multipanda_py.hardware.franka.errors import names_in
from multipanda_py.hardware.franka.settings import (
    FrankaSettings,
    commanded_load,
    pose_ee_in_flange,
)
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.realtime.cycle_record import TRACED_CHANNELS
from multipanda_py.robots.franka import ELBOW_FLIP
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.inertial import NO_LOAD, Load, combined, moments_of
from multipanda_py.ros.topics.state_topic import Fresh, StateTopic
from multipanda_py.state import Vector

BROADCASTER, GRIPPER = "franka_robot_state_broadcaster", "franka_gripper"
_POSE, _JOINT, _TWIST = (1 << TRACED_CHANNELS.index(one) for one in ("pose", "joint", "twist"))
_AXES = ("x", "y", "z")
_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
_COLLISIONS = ("joint_reflex", "cartesian_reflex", "self_collision_avoidance_violation")
REAL_BACKEND = "franka"
"""Backend of arms whose robots report a mode and errors."""


class FrankaTopics:
    """Publisher of the franka_ros2 topics of several arms. Thread: executor.

    External wrenches and torques have libfranka's sign: positive if the robot exerts them on its
    environment, opposite to :attr:`.ArmState.tau_ext`. Desired values are the reference of the
    controllet, or measured values if it has none.
    """

    def __init__(self, node: Node, cell: Cell, arms: list[str]) -> None:
        self._arms = {cell.arms.index(arm): _FrankaArmTopics(node, cell, arm) for arm in arms}

    def send(self, fresh: Fresh) -> None:
        """Publish the topics that have subscribers, from the newest states."""
        for index, stamp in zip(fresh.arms, fresh.stamps):
            if index in self._arms:
                self._arms[index].send(fresh.row, fresh.row["arms"][index], stamp)


class _FrankaArmTopics:
    """Topics of one arm; vectors are along its base axes unless the topic names another frame."""

    def __init__(self, node: Node, cell: Cell, arm: str) -> None:
        self._cell, self._arm = cell, arm
        description, base = cell.descriptions[arm], cell.frames.base_of(arm)
        self._frames = base, description.ee_frame
        self._names = list(description.joint_names)
        self._n = description.n_joints

        def topic(kind: type, name: str, frame: str = base) -> StateTopic:
            return StateTopic(node, kind, f"{arm}/{BROADCASTER}/{name}", frame)

        self._pose = topic(PoseStamped, "current_pose")
        self._last_pose = topic(PoseStamped, "last_desired_pose")
        self._twist = topic(TwistStamped, "desired_end_effector_twist")
        self._in_base = topic(WrenchStamped, "external_wrench_in_base_frame")
        self._in_stiffness = topic(
            WrenchStamped, "external_wrench_in_stiffness_frame", description.ee_frame
        )
        self._measured = topic(JointState, "measured_joint_states")
        self._desired = topic(JointState, "desired_joint_states")
        self._external = topic(JointState, "external_joint_torques")
        self._hand: StateTopic | None = None
        if description.hand:
            self._hand = StateTopic(node, JointState, f"{arm}/{GRIPPER}/joint_states")
            self._hand.message.name = list(description.finger_joint_names)
        self._topics = [
            self._pose, self._last_pose, self._twist, self._in_base, self._in_stiffness,
            self._measured, self._desired, self._external,
        ]  # fmt: skip
        self._state: StateTopic | None = None
        self._whole: RobotStateMessage | None = None
        if find_spec("franka_msgs") is not None:
            from franka_msgs.msg import FrankaRobotState

            self._state = topic(FrankaRobotState, "robot_state")
            self._whole = RobotStateMessage(cell, arm, self._state.message)
            self._topics.append(self._state)

    def send(
        self, row: NDArray[np.void], record: NDArray[np.void], stamp: tuple[int, int]
    ) -> None:
        # ``record`` is the part of ``row`` for this arm; ``stamp`` is (seconds, nanoseconds).
        if self._hand is not None and self._hand.has_subscribers():
            fingers = record["finger_positions"].tolist()
            _set_joints(self._hand.message, self._hand.message.name, fingers, [0.0] * 2, [0.0] * 2)
            self._hand.send(stamp)
        desired = [topic for topic in self._topics if topic.has_subscribers()]
        if not desired:
            return
        self._fill(record)
        if self._state in desired:
            self._fill_state(row, record, stamp)
        for topic in desired:
            topic.send(stamp)

    def _fill(self, record: NDArray[np.void]) -> None:
        n, targets = self._n, int(record["target_channels"])
        position, rotation = record["position_ee_in_base"], record["rotation_ee_in_base"]
        set_pose(self._pose.message.pose, position, rotation)
        desired = record["target_pose"] if targets & _POSE else None
        if desired is not None:
            position, rotation = desired[:3], desired[3:].reshape(3, 3)
        set_pose(self._last_pose.message.pose, position, rotation)
        twist = record["target_twist"] if targets & _TWIST else np.zeros(6)
        _set_pair(self._twist.message.twist, "linear", "angular", twist)
        in_base, in_stiffness = self._wrenches_on_environment(record)
        _set_pair(self._in_base.message.wrench, "force", "torque", in_base)
        _set_pair(self._in_stiffness.message.wrench, "force", "torque", in_stiffness)
        q, dq = record["q"][:n].tolist(), record["dq"][:n].tolist()
        _set_joints(self._measured.message, self._names, q, dq, record["tau_J"][:n].tolist())
        tau = record["tau"][:n].tolist()
        if int(record["interface"]):
            q, dq = record["joint_command"][:2, :n].tolist()
        elif targets & _JOINT:
            q, dq = record["target_joint"][:, :n].tolist()
        _set_joints(self._desired.message, self._names, q, dq, tau)
        nothing = [0.0] * n
        external = (-record["tau_ext"][:n]).tolist()
        _set_joints(self._external.message, self._names, nothing, nothing, external)

    def _wrenches_on_environment(self, record: NDArray[np.void]) -> tuple[Vector, Vector]:
        """Return the robot's wrench on its environment, at the origin of the stiffness frame.

        Its components are along the axes of the base, and of the stiffness frame, (6,) [N, Nm].
        """
        force, torque = np.split(-record["wrench_ext_in_base"], 2)
        rotation = record["rotation_ee_in_base"]
        position, own = self._stiffness_frame_in_tool()
        torque = torque - np.cross(rotation @ position, force)
        own = rotation @ own
        return np.hstack([force, torque]), np.hstack([own.T @ force, own.T @ torque])

    def _stiffness_frame_in_tool(self) -> tuple[Vector, Vector]:
        settings = self._cell.robot_settings(self._arm)
        if not isinstance(settings, FrankaSettings):
            return np.zeros(3), np.eye(3)
        return np.array(settings.stiffness_position), rotation_from_rpy(*settings.stiffness_rpy)

    def _fill_state(
        self, row: NDArray[np.void], record: NDArray[np.void], stamp: tuple[int, int]
    ) -> None:
        if self._state is None or self._whole is None:
            return
        message, (base, tool) = self._state.message, self._frames
        for name, topic in (
            ("measured_joint_state", self._measured), ("desired_joint_state", self._desired),
            ("tau_ext_hat_filtered", self._external), ("o_t_ee", self._pose),
            ("o_t_ee_d", self._last_pose), ("o_t_ee_c", self._last_pose),
            ("o_dp_ee_d", self._twist), ("o_dp_ee_c", self._twist),
            ("o_f_ext_hat_k", self._in_base), ("k_f_ext_hat_k", self._in_stiffness),
        ):  # fmt: skip
            part = topic.message
            part.header.stamp.sec, part.header.stamp.nanosec = stamp
            part.header.frame_id = tool if name == "k_f_ext_hat_k" else base
            setattr(message, name, part)
        self._whole.fill(row, record)


def _set_pair(body: Any, first: str, second: str, values: Vector) -> None:
    for name, numbers in ((first, values[:3]), (second, values[3:])):
        part = getattr(body, name)
        part.x, part.y, part.z = numbers.tolist()


def _set_joints(
    message: Any, names: list[str], q: list[float], dq: list[float], effort: list[float]
) -> None:
    message.name, message.position, message.velocity, message.effort = names, q, dq, effort


class RobotStateMessage:
    """Converter of an arm's state to the message ``robot_state``, with libfranka's conventions.

    Wrenches and external torques are positive if the robot exerts them on its environment. Unknown
    quantities are NaN. A contact flag is set while an estimated external torque or wrench exceeds
    the robot's lower threshold.

    Args:
        message: Message to fill.

    Thread: executor.
    """

    def __init__(self, cell: Cell, arm: str, message: Any) -> None:
        self._cell, self._arm, self._message = cell, arm, message
        self._is_real = cell.config.arms[arm].backend == REAL_BACKEND
        description, base = cell.descriptions[arm], cell.frames.base_of(arm)
        self._description = description
        unknown = np.full(description.n_joints, np.nan)
        message.header.frame_id = base
        message.ddq_d = message.dtau_j = unknown
        message.control_command_success_rate = float("nan")
        motors = message.measured_joint_motor_state
        motors.name = list(description.joint_names)
        motors.position = motors.velocity = motors.effort = unknown.tolist()
        motors.header.frame_id = base
        message.o_ddp_ee_c.header.frame_id = base
        for part in (message.o_ddp_ee_c.accel.linear, message.o_ddp_ee_c.accel.angular):
            part.x = part.y = part.z = float("nan")
        message.ee_t_k.header.frame_id = description.ee_frame
        message.f_t_ee.header.frame_id = description.flange_frame
        fixed = pose_ee_in_flange(description)
        set_pose(message.f_t_ee.pose, fixed[:3, 3], fixed[:3, :3])
        self._errors = [0, 0]
        self._settings: FrankaSettings | None = None
        self._fill_stiffness_frame_and_inertias(FrankaSettings())

    def fill(self, row: NDArray[np.void], record: NDArray[np.void]) -> None:
        """Fill in the fields that no other topic contains, such as robot mode and errors.

        Args:
            row: Cycle record of all arms.
            record: Part of ``row`` with the state of this arm.
        """
        message, settings = self._message, self._cell.robot_settings(self._arm)
        if isinstance(settings, FrankaSettings) and settings is not self._settings:
            self._fill_stiffness_frame_and_inertias(settings)
        message.time = float(record["robot_time"] if self._is_real else row["time"])
        if self._is_real:
            message.robot_mode = int(record["robot_mode"])
        else:
            has_fault = int(record["fault"])
            message.robot_mode = (
                message.ROBOT_MODE_REFLEX if has_fault else message.ROBOT_MODE_MOVE
            )
        errors = record["robot_errors"].tolist()
        if errors != self._errors:
            self._errors = errors
            for part, bits in zip((message.current_errors, message.last_motion_errors), errors):
                result = names_in(bits)
                for name in part.get_fields_and_field_types():
                    setattr(part, name, name in result)
        self._fill_elbow(record)
        robot_reports_collision = any(
            getattr(message.current_errors, name) for name in _COLLISIONS
        )
        self._fill_contacts(robot_reports_collision)

    def _fill_elbow(self, record: NDArray[np.void]) -> None:
        elbow, measured = self._message.elbow, self._message.measured_joint_state
        desired = self._message.desired_joint_state
        elbow.position = _elbow(measured.position)
        elbow.desired_position = elbow.commanded_position = _elbow(desired.position)
        elbow.commanded_velocity = [desired.velocity[2], 0.0]
        is_position = int(record["interface"]) != 0
        acceleration = float(record["joint_command"][2, 2]) if is_position else float("nan")
        elbow.commanded_acceleration = [acceleration, 0.0]

    def _fill_contacts(self, robot_reports_collision: bool) -> None:
        message, flags = self._message, self._message.collision_indicators
        settings = self._settings or FrankaSettings()
        torque = np.abs(message.tau_ext_hat_filtered.effort)
        wrench = message.k_f_ext_hat_k.wrench
        force = [
            abs(getattr(part, axis)) for part in (wrench.force, wrench.torque) for axis in _AXES
        ]
        flags.is_joint_contact = (torque > settings.lower_torque_thresholds).astype(float)
        contact = (np.array(force) > settings.lower_force_thresholds).astype(float)
        _set_axes(flags.is_cartesian_linear_contact, contact[:3])
        _set_axes(flags.is_cartesian_angular_contact, contact[3:])
        # The robot does not report which joint or axis collided.
        collision = float("nan") if robot_reports_collision else 0.0
        flags.is_joint_collision = np.full(len(torque), collision)
        _set_axes(flags.is_cartesian_linear_collision, [collision] * 3)
        _set_axes(flags.is_cartesian_angular_collision, [collision] * 3)

    def _fill_stiffness_frame_and_inertias(self, settings: FrankaSettings) -> None:
        self._settings, message = settings, self._message
        set_pose(
            message.ee_t_k.pose,
            np.array(settings.stiffness_position),
            rotation_from_rpy(*settings.stiffness_rpy),
        )
        gripper = self._description.gripper
        hand, load = (
            gripper.load if gripper else NO_LOAD,
            commanded_load(settings, self._description),
        )
        for part, body in (
            (message.inertia_ee, hand),
            (message.inertia_load, load),
            (message.inertia_total, combined([hand, load])),
        ):
            part.header.frame_id = self._description.flange_frame
            _set_inertia(part.inertia, body)


def set_pose(pose: Any, position: Vector, rotation: Vector) -> None:
    """Fill a ``geometry_msgs/Pose`` from a position, (3,) [m], and a rotation matrix, (3, 3)."""
    pose.position.x, pose.position.y, pose.position.z = position.tolist()
    q = pose.orientation
    q.x, q.y, q.z, q.w = quaternion_from_rotation(rotation)


def _elbow(q: Any) -> list[float]:
    """Return the position of joint 3 [rad] and the sign of joint 4 (-1 or 1), as in libfranka."""
    return [q[2], float(np.sign(q[3] - ELBOW_FLIP))]


def _set_axes(vector: Any, values: Any) -> None:
    vector.x, vector.y, vector.z = (float(value) for value in values)


def _set_inertia(message: Any, body: Load) -> None:
    message.m = float(body.mass)
    _set_axes(message.com, body.com)
    for name, value in zip(_MOMENTS, moments_of(body.inertia)):
        setattr(message, name, float(value))
