# SPDX-License-Identifier: Apache-2.0
"""Poses of the links of an arm, each in its parent link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots.arm import ArmDescription
from multipanda_py.robots.geometry import Origin, Point
from multipanda_py.robots.parallel_gripper import ParallelGripper

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Attachment:
    """Attachment of a link to its parent link.

    Attributes:
        parent: Name of the parent link.
        child: Name of the link.
        origin: Pose of the joint in the parent's frame.
    """

    parent: str
    child: str
    origin: Origin


def fixed_links(arm: ArmDescription) -> Iterator[Attachment]:
    """Yield the fixed links of an arm, its base first."""
    p, kind, flange = arm.prefix, arm.robot, arm.flange_frame
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = arm.rotation_base_in_world, arm.position_base_in_world
    yield Attachment("world", arm.base_frame, Origin.of(base))
    yield Attachment(p + kind.links[-1].name, flange, kind.flange.origin)
    if arm.gripper is not None:
        yield Attachment(flange, f"{p}hand", arm.gripper.mount)
        yield Attachment(f"{p}hand", f"{p}hand_tcp", arm.gripper.tcp)
    if arm.tool is not None:
        yield Attachment(flange, f"{p}tool", Origin())
        yield Attachment(f"{p}tool", f"{p}tool_tcp", Origin.of(arm.tool.pose_tcp_in_flange))


class MovingLinks:
    r"""Poses of the links of an arm that joints and fingers move, from base to fingers.

    The joint's origin has the position :math:`p_0` and orientation :math:`\xi_0` in the parent
    link, and the axis a in its own frame. The link then has the pose

    .. math::
        p = p_0 + R(\xi_0)\, a\, s, \qquad
        \xi = \xi_0 \cos\tfrac{\theta}{2} + \xi_0 (0, a) \sin\tfrac{\theta}{2}.

    Here :math:`R(\xi_0)` is the rotation matrix of the quaternion :math:`\xi_0`, and
    :math:`(s, \theta)` is (q, 0) for a prismatic joint, else (0, q). The URDF of the arm has the
    same origins.

    Args:
        arm: Description of the arm.

    Attributes:
        links: Attachments with the joints at zero.
    """

    def __init__(self, arm: ArmDescription) -> None:
        p, kind = arm.prefix, arm.robot
        names = [p + link.name for link in kind.links]
        self.links = [
            Attachment(parent, child, joint.origin)
            for parent, child, joint in zip(names, names[1:], kind.joints)
        ]
        axes: list[Point] = [joint.axis for joint in kind.joints]
        slides = [bool(slide) for slide in arm.limits.slides]
        gripper = arm.gripper
        if gripper is not None:
            self.links += _fingers(p, gripper)
            axes += [finger.axis for finger in gripper.fingers]
            slides += [True, True]
        self._n = len(self.links)
        self._origins = np.array([link.origin.position for link in self.links])
        rotations = [link.origin.rotation for link in self.links]
        is_sliding = np.array(slides)
        along = np.array([r @ np.array(a) for r, a in zip(rotations, axes)])
        self._along = along * is_sliding[:, None]
        self._half = 0.5 * ~is_sliding
        self._still = np.array([quaternion_from_rotation(r) for r in rotations])
        self._turned = np.array([_times(q, a) for q, a in zip(self._still, axes)])

    def forward_kinematics(self, q: ArrayLike, fingers: ArrayLike = ()) -> tuple[Vector, Vector]:
        """Return the poses of the links in their parents.

        Args:
            q: Joint positions, (n,) [rad, m].
            fingers: Finger positions, (2,) [m]; not used without a gripper.

        Returns:
            Positions (m, 3) [m] and unit quaternions x, y, z, w (m, 4).
        """
        values = np.concatenate((q, fingers))[: self._n]
        angles = (values * self._half)[:, None]
        positions = self._origins + self._along * values[:, None]
        return positions, self._still * np.cos(angles) + self._turned * np.sin(angles)


def _fingers(p: str, gripper: ParallelGripper) -> list[Attachment]:
    return [
        Attachment(f"{p}hand", f"{p}{side}finger", finger.origin)
        for side, finger in zip(("left", "right"), gripper.fingers)
    ]


def _times(xyzw: Vector, axis: Point) -> Vector:
    """Return the product of a quaternion x, y, z, w and an axis as the quaternion (axis, 0)."""
    vector, scalar, a = xyzw[:3], xyzw[3], np.array(axis)
    return np.array([*(scalar * a + np.cross(vector, a)), -float(vector @ a)])
