# SPDX-License-Identifier: Apache-2.0
"""Description of a parallel gripper: a body on the flange and two prismatic fingers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.geometry import (
    Block,
    Capsule,
    Origin,
    Point,
    SolidOfRevolution,
    rotation_from_rpy,
)
from multipanda_py.robots.inertial import Inertial, Load, combined

Contact: TypeAlias = Capsule | Block
Visuals: TypeAlias = SolidOfRevolution | Block


@dataclass(frozen=True)
class GripperBody:
    """Body of a gripper that is fixed to the flange.

    Attributes:
        inertial: Inertial properties in the body's frame.
        contact: Contact geometry.
        visuals: Visual geometry.
    """

    inertial: Inertial
    contact: tuple[Contact, ...]
    visuals: tuple[Visuals, ...]


@dataclass(frozen=True)
class Finger(GripperBody):
    """Finger of a gripper, in the frame of its joint.

    Attributes:
        origin: Pose in the body's frame at joint position zero.
        axis: Opening direction in the finger's frame, a unit vector.
    """

    origin: Origin
    axis: Point

    @property
    def pad(self) -> int:
        """Index of the solid in ``contact`` that reaches farthest towards the other finger."""
        axis = np.array(self.axis)
        inner = [float((corners(solid) @ axis).min()) for solid in self.contact]
        return inner.index(min(inner))


@dataclass(frozen=True, eq=False)
class ParallelGripper:
    """Parallel gripper whose width between the fingers is twice the position of a finger.

    The links of every gripper are called ``hand``, ``leftfinger``, ``rightfinger`` and
    ``hand_tcp``, and its joints ``finger_joint1`` and ``finger_joint2``.

    Attributes:
        name: Name for messages.
        mount: Pose of the body in the flange.
        tcp: Pose of the tool centre point in the body.
        body: Body that is fixed to the flange.
        fingers: Left and right finger.
        lower: Position of a closed finger [m].
        upper: Position of an open finger [m].
        velocity: Maximum velocity of a finger [m/s].
        speed: Maximum commanded speed of the width [m/s].
        force: Maximum continuous force of a finger [N].
        max_force: Maximum commanded force [N].
        capsules: Capsules for collision avoidance in the body's frame, around the body and around
            the space in which the fingers move.
    """

    name: str
    mount: Origin
    tcp: Origin
    body: GripperBody
    fingers: tuple[Finger, Finger]
    lower: float
    upper: float
    velocity: float
    speed: float
    force: float
    max_force: float
    capsules: tuple[Capsule, ...]

    @property
    def min_width(self) -> float:
        """Width with closed fingers [m]."""
        return 2.0 * self.lower

    @property
    def max_width(self) -> float:
        """Width with open fingers [m]."""
        return 2.0 * self.upper

    @property
    def load(self) -> Load:
        """Gripper with open fingers as one body in the frame of the flange."""
        rotation, origin = self.mount.rotation, np.array(self.mount.position)
        parts = [_load_in_parent(self.body.inertial, origin, rotation)]
        for finger in self.fingers:
            own = rotation @ finger.origin.rotation
            position = origin + rotation @ np.array(finger.origin.position)
            position = position + own @ (self.upper * np.array(finger.axis))
            parts.append(_load_in_parent(finger.inertial, position, own))
        return combined(parts)

    @property
    def pose_tcp_in_flange(self) -> NDArray[np.float64]:
        """Pose of the tool centre point in the flange, (4, 4)."""
        pose, rotation = np.eye(4), self.mount.rotation
        pose[:3, :3] = rotation @ self.tcp.rotation
        pose[:3, 3] = np.array(self.mount.position) + rotation @ np.array(self.tcp.position)
        return pose


def corners(solid: Contact) -> NDArray[np.float64]:
    """Return the corners of a block, or of cubes around both capsule ends, (8 or 16, 3) [m]."""
    signs = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, 8).T
    if isinstance(solid, Block):
        rotation = rotation_from_rpy(solid.roll, 0.0, 0.0)
        return np.asarray(np.array(solid.center) + signs * solid.half_size @ rotation.T)
    return np.vstack([np.array(end) + solid.radius * signs for end in (solid.start, solid.end)])


def _load_in_parent(
    inertial: Inertial, position: NDArray[np.float64], rotation: NDArray[np.float64]
) -> Load:
    com = position + rotation @ np.array(inertial.com)
    return Load(inertial.mass, com, rotation @ inertial.inertia @ rotation.T)
