# SPDX-License-Identifier: Apache-2.0
"""URDF that a robot sends to its client, with its limits, and frames of the flange.

libfranka builds its dynamics from this text. It expects joints whose names contain ``joint1`` to
``joint7``, and a flange named exactly ``link8``. With a prefix, it computes wrong gravity torques
without an error. It also reads ``position_based_velocity_limits``, which is not part of the URDF
standard. The gripper is not in the URDF; the robot reports it in the state, as ``m_ee``.
"""

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
from multipanda_py.robots.urdf import Element, add, add_inertial, add_joint_origin, numbers

Vector = NDArray[np.float64]
_TOLERANCE = 1e-5  # Tolerance of libfranka for homogeneous transforms.


def pose_from(columns: Vector) -> Vector:
    """Return a (4, 4) pose from 16 numbers in column-major order."""
    return np.array(columns, dtype=np.float64).reshape(4, 4, order="F")


def is_pose(pose: Vector) -> bool:
    rotation = pose[:3, :3]
    return bool(
        np.isfinite(pose).all()
        and np.abs(pose[3] - (0.0, 0.0, 0.0, 1.0)).max() < _TOLERANCE
        and np.abs(rotation @ rotation.T - np.eye(3)).max() < _TOLERANCE
        and np.linalg.det(rotation) > 0.0
    )


class FlangeFrames:
    """Frames on the flange F, as poses (4, 4).

    Attributes:
        F_T_NE: Nominal end effector in the flange, which Desk sets on a real robot.
        NE_T_EE: End effector in the nominal end effector, set by the client.
        EE_T_K: Stiffness frame in the end effector, set by the client.
    """

    def __init__(self, F_T_NE: Vector | None = None) -> None:
        self.F_T_NE: Vector = np.eye(4) if F_T_NE is None else np.array(F_T_NE)
        self.NE_T_EE, self.EE_T_K = np.eye(4), np.eye(4)

    @property
    def pose_ee_in_flange(self) -> Vector:
        """Pose of the end effector in the flange."""
        return np.asarray(self.F_T_NE @ self.NE_T_EE)


TORQUE_LIMITS = FR3_LIMITS.torque
ACCELERATION_LIMITS = FR3_LIMITS.acceleration
JERK_LIMITS = FR3_LIMITS.jerk


def client_urdf() -> str:
    """Return the URDF of an FR3 without gripper, as libfranka expects it."""
    robot = Element("robot", name="fr3")
    for i, inertial in enumerate(INERTIALS["fr3"]):
        link = add(robot, "link", name=f"link{i}")
        add_inertial(link, inertial.mass, inertial.com, inertial.inertia)
    add(robot, "link", name="link8")
    for i, origin in enumerate(JOINT_ORIGINS):
        joint = _add_joint(robot, "revolute", i + 1)
        add_joint_origin(joint, origin.position, origin.rotation)
        add(joint, "axis", xyz="0 0 1")
        limit = {
            "lower": LOWER_LIMITS,
            "upper": UPPER_LIMITS,
            "velocity": VELOCITY_LIMITS,
            "effort": TORQUE_LIMITS,
        }
        add(joint, "limit", {name: numbers(values[i : i + 1]) for name, values in limit.items()})
        add(
            joint,
            "position_based_velocity_limits",
            velocity_offset=numbers(VELOCITY_OFFSET[i : i + 1]),
            deceleration_limit=numbers(DECELERATION[i : i + 1]),
        )
    add_joint_origin(_add_joint(robot, "fixed", 8), (0.0, 0.0, FLANGE_HEIGHT))
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(robot, encoding="unicode")


def _add_joint(robot: Element, kind: str, index: int) -> Element:
    """Add the joint between link ``index - 1`` and link ``index``."""
    joint = add(robot, "joint", name=f"joint{index}", type=kind)
    add(joint, "parent", link=f"link{index - 1}")
    add(joint, "child", link=f"link{index}")
    return joint
