# SPDX-License-Identifier: Apache-2.0
"""Message ``franka_msgs/FrankaRobotState`` of one arm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.cell import Cell
from multipanda_py.hardware.franka.errors import names_in
from multipanda_py.hardware.franka.settings import (
    FrankaSettings,
    commanded_load,
    pose_ee_in_flange,
)
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots.franka import ELBOW_FLIP
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.inertial import NO_LOAD, Load, combined, moments_of
from multipanda_py.state import Vector

_AXES = ("x", "y", "z")
_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
_COLLISIONS = ("joint_reflex", "cartesian_reflex", "self_collision_avoidance_violation")
REAL_BACKEND = "franka"
"""Backend of arms whose robots report a mode and errors."""


class RobotStateMessage:
    """Converter of one arm's record to the message, in libfranka's frames, signs and units.

    Wrenches and external torques are positive if the robot exerts them on its environment. A
    quantity that the cell does not receive from the robot is NaN. Contact flags compare the
    estimated external torques and wrench with the robot's lower thresholds.

    Args:
        cell: Cell of the arm.
        arm: Name of the arm.
        message: Message to fill; its arrays and frames are set here.

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
        self._fill_settings(FrankaSettings())

    def fill(self, row: NDArray[np.void], record: NDArray[np.void]) -> None:
        """Fill in the fields that are not published on separate topics too.

        Args:
            row: Record of the cycle.
            record: Part of the arm in it.
        """
        message, settings = self._message, self._cell.robot_settings(self._arm)
        if isinstance(settings, FrankaSettings) and settings is not self._settings:
            self._fill_settings(settings)
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
        collided = any(getattr(message.current_errors, name) for name in _COLLISIONS)
        self._fill_contacts(collided)

    def _fill_elbow(self, record: NDArray[np.void]) -> None:
        elbow, measured = self._message.elbow, self._message.measured_joint_state
        desired = self._message.desired_joint_state
        elbow.position = _elbow(measured.position)
        elbow.desired_position = elbow.commanded_position = _elbow(desired.position)
        elbow.commanded_velocity = [desired.velocity[2], 0.0]
        is_position = int(record["interface"]) != 0
        acceleration = float(record["joint_command"][2, 2]) if is_position else float("nan")
        elbow.commanded_acceleration = [acceleration, 0.0]

    def _fill_contacts(self, collided: bool) -> None:
        """Fill in contact flags; NaN after a collision, whose axis is unknown."""
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
        collision = float("nan") if collided else 0.0
        flags.is_joint_collision = np.full(len(torque), collision)
        _set_axes(flags.is_cartesian_linear_collision, [collision] * 3)
        _set_axes(flags.is_cartesian_angular_collision, [collision] * 3)

    def _fill_settings(self, settings: FrankaSettings) -> None:
        """Fill in the stiffness frame and the inertias, which change with the settings only."""
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
    """Return joint 3 and the flip direction of joint 4."""
    return [q[2], float(np.sign(q[3] - ELBOW_FLIP))]


def _set_axes(vector: Any, values: Any) -> None:
    vector.x, vector.y, vector.z = (float(value) for value in values)


def _set_inertia(message: Any, body: Load) -> None:
    message.m = float(body.mass)
    _set_axes(message.com, body.com)
    for name, value in zip(_MOMENTS, moments_of(body.inertia)):
        setattr(message, name, float(value))
