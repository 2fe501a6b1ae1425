# SPDX-License-Identifier: Apache-2.0
"""TCP requests of the client: decoding, execution and answers, including the robot model."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.franka import (
    DECELERATION,
    FLANGE_HEIGHT,
    FR3_LIMITS,
    INERTIALS,
    JOINT_ORIGINS,
    LOWER_LIMITS,
    UPPER_LIMITS,
    VELOCITY_LIMITS,
    VELOCITY_OFFSET,
)
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.urdf import Element, add, add_inertial, add_joint_origin, numbers
from multipanda_py.simulation.fci.cartesian import is_pose, pose_from
from multipanda_py.simulation.fci.collision_reflex import Thresholds
from multipanda_py.simulation.fci.motion_generator import Motion
from multipanda_py.simulation.fci.robot import FciRobot
from multipanda_py.simulation.fci.wire import (
    MOVE,
    Controller,
    Generator,
    Mode,
    MoveStatus,
    RobotRequest,
    SetStatus,
)

Vector = NDArray[np.float64]

_CONTROLLERS = {int(item) for item in Controller if item is not Controller.OTHER}
_GENERATORS = {int(item) for item in Generator if item is not Generator.IDLE}
_JOINT_STIFFNESS = (0.0, 14250.0)  # Minimum and maximum in the FCI documentation [Nm/rad].
# Minimum and maximum of each axis in the FCI documentation [N/m, Nm/rad].
_CARTESIAN_STIFFNESS = np.array([[10.0, 3000.0]] * 3 + [[1.0, 300.0]] * 3)


def handle(robot: FciRobot, request: RobotRequest, request_id: int, body: bytes) -> bytes | None:
    """Execute a TCP request of the client, of any type but Connect.

    Args:
        robot: Robot that received the request.
        request: Type of the request.
        request_id: Number of the request.
        body: Content of the request.

    Returns:
        Body of the answer; None if ``robot`` answers later, as for an accepted motion.
    """
    if request is RobotRequest.MOVE:
        return _move(robot, request_id, body)
    if request is RobotRequest.STOP_MOVE:
        if robot.motion is not None:
            robot.end_motion(MoveStatus.PREEMPTED)
        return bytes([SetStatus.SUCCESS])
    if request is RobotRequest.AUTOMATIC_ERROR_RECOVERY:
        robot.recover(request_id)
        return None
    if request is RobotRequest.GET_ROBOT_MODEL:
        return bytes([SetStatus.SUCCESS]) + client_urdf().encode()
    if robot.motion is not None:  # Assumed: a robot in motion rejects all settings.
        return bytes([SetStatus.NOT_POSSIBLE])
    return bytes([_set(robot, request, body)])


def _move(robot: FciRobot, request_id: int, body: bytes) -> bytes | None:
    if len(body) != MOVE.size:
        return bytes([MoveStatus.INVALID_ARGUMENT])
    controller, generator, *rest = MOVE.unpack(body)
    asynchronous, speeds = bool(rest[6]), np.array(rest[7:])
    known = controller in _CONTROLLERS and generator in _GENERATORS
    torque = controller == Controller.EXTERNAL
    if not known or torque != (generator == Generator.NONE):
        return bytes([MoveStatus.INVALID_ARGUMENT])
    if asynchronous and (generator != Generator.JOINT_POSITION or not (speeds > 0.0).all()):
        return bytes([MoveStatus.INVALID_ARGUMENT])
    if robot.mode is not Mode.IDLE:
        return bytes([MoveStatus.NOT_POSSIBLE])
    robot.start_motion(
        Motion(request_id, Controller(controller), Generator(generator), asynchronous, speeds,
               robot.physics, robot.frames, robot.hold_q)
    )  # fmt: skip
    return None


def _set(robot: FciRobot, request: RobotRequest, body: bytes) -> SetStatus:
    if request is RobotRequest.SET_GUIDING_MODE:
        return SetStatus.SUCCESS if len(body) == 7 else SetStatus.INVALID_ARGUMENT
    sizes = {
        RobotRequest.SET_COLLISION_BEHAVIOR: 52,
        RobotRequest.SET_JOINT_IMPEDANCE: 7,
        RobotRequest.SET_CARTESIAN_IMPEDANCE: 6,
        RobotRequest.SET_EE_TO_K: 16,
        RobotRequest.SET_NE_TO_EE: 16,
        RobotRequest.SET_LOAD: 13,
    }
    if len(body) != 8 * sizes[request]:
        return SetStatus.INVALID_ARGUMENT
    values = np.frombuffer(body, "<f8")
    if not np.isfinite(values).all():
        return SetStatus.INVALID_ARGUMENT
    accepted = {
        RobotRequest.SET_COLLISION_BEHAVIOR: _collision_behavior,
        RobotRequest.SET_JOINT_IMPEDANCE: _joint_impedance,
        RobotRequest.SET_CARTESIAN_IMPEDANCE: _cartesian_impedance,
        RobotRequest.SET_EE_TO_K: _ee_to_k,
        RobotRequest.SET_NE_TO_EE: _ne_to_ee,
        RobotRequest.SET_LOAD: _load,
    }[request](robot, values)
    if accepted:
        robot.state.configure()
    return SetStatus.SUCCESS if accepted else SetStatus.INVALID_ARGUMENT


def _collision_behavior(robot: FciRobot, values: Vector) -> bool:
    if (values < 0.0).any():
        return False
    nominal_torque, nominal_force = values[14:28], values[40:52]
    robot.thresholds = Thresholds(
        nominal_torque[:7].copy(), nominal_torque[7:].copy(),
        nominal_force[:6].copy(), nominal_force[6:].copy(),
    )  # fmt: skip
    return True


def _joint_impedance(robot: FciRobot, values: Vector) -> bool:
    low, high = _JOINT_STIFFNESS
    if ((values < low) | (values > high)).any():
        return False
    robot.stiffness = values.copy()
    return True


def _cartesian_impedance(robot: FciRobot, values: Vector) -> bool:
    low, high = _CARTESIAN_STIFFNESS.T
    return bool(((values >= low) & (values <= high)).all())


def _ee_to_k(robot: FciRobot, values: Vector) -> bool:
    pose = pose_from(values)
    if is_pose(pose):
        robot.frames.EE_T_K = pose
    return is_pose(pose)


def _ne_to_ee(robot: FciRobot, values: Vector) -> bool:
    pose = pose_from(values)
    if is_pose(pose):
        robot.frames.NE_T_EE = pose
    return is_pose(pose)


def _load(robot: FciRobot, values: Vector) -> bool:
    inertia = values[4:].reshape(3, 3, order="F")
    moments = np.linalg.eigvalsh((inertia + inertia.T) / 2.0)
    if values[0] < 0.0 or not np.allclose(inertia, inertia.T) or moments[0] < -1e-9:
        return False
    robot.load = Load(float(values[0]), values[1:4].copy(), inertia.copy())
    robot.physics.set_load(robot.load)
    return True


def client_urdf() -> str:
    """Return the URDF of an FR3 without gripper, from which libfranka builds its dynamics.

    Mass and inertia of the gripper are in the state datagram (``m_ee``).
    """
    # libfranka needs joints whose names contain joint1 to joint7, and a flange named link8. With a
    # prefix, it computes wrong gravity torques without an error. It also reads
    # position_based_velocity_limits, which is not part of the URDF standard.
    robot = Element("robot", name="fr3")
    for i, inertial in enumerate(INERTIALS["fr3"]):
        link = add(robot, "link", name=f"link{i}")
        add_inertial(link, inertial.mass, inertial.com, inertial.inertia)
    add(robot, "link", name="link8")
    for i, origin in enumerate(JOINT_ORIGINS):
        joint = _add_joint_to_link(robot, "revolute", i + 1)
        add_joint_origin(joint, origin.position, origin.rotation)
        add(joint, "axis", xyz="0 0 1")
        limit = {
            "lower": LOWER_LIMITS,
            "upper": UPPER_LIMITS,
            "velocity": VELOCITY_LIMITS,
            "effort": FR3_LIMITS.torque,
        }
        add(joint, "limit", {name: numbers(values[i : i + 1]) for name, values in limit.items()})
        add(
            joint,
            "position_based_velocity_limits",
            velocity_offset=numbers(VELOCITY_OFFSET[i : i + 1]),
            deceleration_limit=numbers(DECELERATION[i : i + 1]),
        )
    add_joint_origin(_add_joint_to_link(robot, "fixed", 8), (0.0, 0.0, FLANGE_HEIGHT))
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(robot, encoding="unicode")


def _add_joint_to_link(robot: Element, kind: str, index: int) -> Element:
    joint = add(robot, "joint", name=f"joint{index}", type=kind)
    add(joint, "parent", link=f"link{index - 1}")
    add(joint, "child", link=f"link{index}")
    return joint
