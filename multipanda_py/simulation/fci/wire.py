# SPDX-License-Identifier: Apache-2.0
"""Binary format of the Franka Control Interface, protocol 10 (robot) and 3 (gripper).

All data are little-endian and packed. Layouts and numbers are those of libfranka-common
(Apache-2.0, research_interface/robot/{rbk_types,service_types,error}.h and
research_interface/gripper/types.h), verified against pylibfranka 0.21.3. Matrices are
column-major. Units are m, rad, Nm and N.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROBOT_VERSION, GRIPPER_VERSION = 10, 3
"""Protocol versions of robot and gripper."""
ROBOT_PORT, GRIPPER_PORT = 1337, 1338
"""TCP ports of robot and gripper."""
STATE_SIZE, COMMAND_SIZE = 1377, 371
"""Sizes of a UDP packet with a state and with a command [bytes]."""
ROBOT_HEADER = struct.Struct("<III")
"""Header of robot messages: command, counter of the client, size of the whole message [bytes]."""
GRIPPER_HEADER = struct.Struct("<HII")
"""Header of gripper messages: command, counter, size."""
CONNECT = struct.Struct("<HH")
"""Body of Connect: version, and UDP port of the client."""
MOVE = struct.Struct("<II6dB7d")
"""Body of Move: controller, motion generator, deviations (unused), asynchronous flag, and joint
speeds [rad/s]."""
GRIPPER_STATE = struct.Struct("<IddBH")
"""State of the gripper: time [ms], width [m], maximum width [m], grasped flag, temperature [deg
C]."""


class RobotRequest(IntEnum):
    """Requests to the robot over TCP."""

    CONNECT = 0
    MOVE = 1
    STOP_MOVE = 2
    SET_COLLISION_BEHAVIOR = 3
    SET_JOINT_IMPEDANCE = 4
    SET_CARTESIAN_IMPEDANCE = 5
    SET_GUIDING_MODE = 6
    SET_EE_TO_K = 7
    SET_NE_TO_EE = 8
    SET_LOAD = 9
    AUTOMATIC_ERROR_RECOVERY = 10
    GET_ROBOT_MODEL = 11


class GripperRequest(IntEnum):
    """Requests to the gripper over TCP."""

    CONNECT = 0
    HOMING = 1
    GRASP = 2
    MOVE = 3
    STOP = 4


class GripperStatus(IntEnum):
    """Results in the gripper's answers to requests."""

    SUCCESS = 0
    FAIL = 1
    UNSUCCESSFUL = 2
    ABORTED = 3


class Mode(IntEnum):
    """Modes of the robot, with their numbers in the state datagram."""

    OTHER = 0
    IDLE = 1
    MOVE = 2
    GUIDING = 3
    REFLEX = 4
    USER_STOPPED = 5
    RECOVERY = 6


class Controller(IntEnum):
    """Controllers, with their numbers in the request Move and in the state datagram."""

    JOINT_IMPEDANCE = 0
    CARTESIAN_IMPEDANCE = 1
    EXTERNAL = 2
    OTHER = 3


class Generator(IntEnum):
    """Motion generators, with their numbers in the request Move.

    In the state datagram the numbers are higher by one, so 0 is ``IDLE``.
    """

    IDLE = -1
    JOINT_POSITION = 0
    JOINT_VELOCITY = 1
    CARTESIAN_POSITION = 2
    CARTESIAN_VELOCITY = 3
    NONE = 4


class MoveStatus(IntEnum):
    """Answers to the request Move: first MOTION_STARTED or a rejection, later the end."""

    SUCCESS = 0
    MOTION_STARTED = 1
    PREEMPTED = 2
    PREEMPTED_SAFETY = 3
    REFUSED_SAFETY = 4
    NOT_POSSIBLE = 5
    SINGULAR_START = 6
    INVALID_ARGUMENT = 7
    REFLEX_ABORTED = 8
    EMERGENCY_ABORTED = 9
    INPUT_ERROR_ABORTED = 10
    ABORTED = 11


class SetStatus(IntEnum):
    """Answers to requests that change settings, to StopMove and to GetRobotModel."""

    SUCCESS = 0
    NOT_POSSIBLE = 1
    INVALID_ARGUMENT = 2
    REFUSED_SAFETY = 3


class RecoveryStatus(IntEnum):
    """Answers to AutomaticErrorRecovery that the simulation sends."""

    SUCCESS = 0
    NOT_POSSIBLE = 1
    MANUAL_REQUIRED = 3
    EMERGENCY_ABORTED = 5
    ABORTED = 6


ERRORS = (
    "joint_position_limits_violation",
    "cartesian_position_limits_violation",
    "self_collision_avoidance_violation",
    "joint_velocity_violation",
    "cartesian_velocity_violation",
    "force_control_safety_violation",
    "joint_reflex",
    "cartesian_reflex",
    "max_goal_pose_deviation_violation",
    "max_path_pose_deviation_violation",
    "cartesian_velocity_profile_safety_violation",
    "joint_position_motion_generator_start_pose_invalid",
    "joint_motion_generator_position_limits_violation",
    "joint_motion_generator_velocity_limits_violation",
    "joint_motion_generator_velocity_discontinuity",
    "joint_motion_generator_acceleration_discontinuity",
    "cartesian_position_motion_generator_start_pose_invalid",
    "cartesian_motion_generator_elbow_limit_violation",
    "cartesian_motion_generator_velocity_limits_violation",
    "cartesian_motion_generator_velocity_discontinuity",
    "cartesian_motion_generator_acceleration_discontinuity",
    "cartesian_motion_generator_elbow_sign_inconsistent",
    "cartesian_motion_generator_start_elbow_invalid",
    "force_controller_desired_force_tolerance_violation",
    "start_elbow_sign_inconsistent",
    "communication_constraints_violation",
    "power_limit_violation",
    "cartesian_motion_generator_joint_position_limits_violation",
    "cartesian_motion_generator_joint_velocity_limits_violation",
    "cartesian_motion_generator_joint_velocity_discontinuity",
    "cartesian_motion_generator_joint_acceleration_discontinuity",
    "cartesian_position_motion_generator_invalid_frame",
    "controller_torque_discontinuity",
    "joint_p2p_insufficient_torque_for_planning",
    "tau_j_range_violation",
    "instability_detected",
    "joint_move_in_wrong_direction",
    "cartesian_spline_motion_generator_violation",
    "joint_via_motion_generator_planning_joint_limit_violation",
    "base_acceleration_initialization_timeout",
    "base_acceleration_invalid_reading",
)
"""Names of the errors, in the order of their flags."""

_STATE_FLOATS = (
    ("O_T_EE", 16), ("O_T_EE_d", 16), ("F_T_EE", 16), ("EE_T_K", 16), ("F_T_NE", 16),
    ("NE_T_EE", 16), ("m_ee", 1), ("I_ee", 9), ("F_x_Cee", 3), ("m_load", 1), ("I_load", 9),
    ("F_x_Cload", 3), ("elbow", 2), ("elbow_d", 2), ("tau_J", 7), ("tau_J_d", 7), ("dtau_J", 7),
    ("q", 7), ("q_d", 7), ("dq", 7), ("dq_d", 7), ("ddq_d", 7), ("joint_contact", 7),
    ("cartesian_contact", 6), ("joint_collision", 7), ("cartesian_collision", 6),
    ("tau_ext_hat_filtered", 7), ("O_F_ext_hat_K", 6), ("K_F_ext_hat_K", 6), ("O_dP_EE_d", 6),
    ("O_ddP_O", 3), ("elbow_c", 2), ("delbow_c", 2), ("ddelbow_c", 2), ("O_T_EE_c", 16),
    ("O_dP_EE_c", 6), ("O_ddP_EE_c", 6), ("theta", 7), ("dtheta", 7),
    ("accelerometer_top", 18), ("accelerometer_bottom", 18),
)  # fmt: skip
STATE = np.dtype(
    [
        ("message_id", "<u8", (1,)),
        *((name, "<f4", (width,)) for name, width in _STATE_FLOATS),
        ("motion_generator_mode", "u1", (1,)),
        ("controller_mode", "u1", (1,)),
        ("errors", "u1", (len(ERRORS),)),
        ("reflex_reason", "u1", (len(ERRORS),)),
        ("robot_mode", "u1", (1,)),
        ("control_command_success_rate", "<f4", (1,)),
    ]
)
COMMAND = np.dtype(
    [
        ("message_id", "<u8"),
        ("q_c", "<f8", (7,)),
        ("dq_c", "<f8", (7,)),
        ("O_T_EE_c", "<f8", (16,)),
        ("O_dP_EE_c", "<f8", (6,)),
        ("elbow_c", "<f8", (2,)),
        ("valid_elbow", "u1"),
        ("motion_finished", "u1"),
        ("tau_J_d", "<f8", (7,)),
        ("torque_finished", "u1"),
    ]
)


class StateDatagram:
    """Datagram of a robot state, with a writable view of each field.

    Attributes:
        buffer: Encoded datagram.
        fields: One-dimensional views of the fields by name.
    """

    def __init__(self) -> None:
        self.buffer = bytearray(STATE.itemsize)
        record = np.frombuffer(self.buffer, STATE)
        self.fields: dict[str, NDArray[Any]] = {
            name: record[name][0] for name in STATE.names or ()
        }


def command_from(datagram: bytes) -> np.void | None:
    """Decode a datagram with a command of the client; return None if it has another size."""
    if len(datagram) != COMMAND_SIZE:
        return None
    command: np.void = np.frombuffer(datagram, COMMAND)[0]
    return command
