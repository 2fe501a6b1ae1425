# SPDX-License-Identifier: Apache-2.0
"""Frames, rotations, and simple solids and colours for collision and visual geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> NDArray[np.float64]:
    """Return the rotation matrix, (3, 3), of fixed-axis angles [rad] in the convention of URDF.

    .. math:: R = R_z(yaw) R_y(pitch) R_x(roll)
    """
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(a), math.cos(a)) for a in (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def gravity_in_base(rpy: Sequence[float]) -> NDArray[np.float64]:
    """Return gravity in a base with roll, pitch and yaw [rad] in the world, (3,) [m/s^2]."""
    return np.asarray(rotation_from_rpy(*rpy).T @ (0.0, 0.0, -9.81))


def rpy_from_rotation(rotation: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a rotation matrix, (3, 3).

    At a pitch of 90 or -90 degrees, roll and yaw are not unique. Yaw is then 0.
    """
    r = rotation
    cos_pitch = math.hypot(float(r[0, 0]), float(r[1, 0]))
    pitch = math.atan2(-float(r[2, 0]), cos_pitch)
    if cos_pitch < 1e-9:
        return math.atan2(-float(r[1, 2]), float(r[1, 1])), pitch, 0.0
    roll = math.atan2(float(r[2, 1]), float(r[2, 2]))
    return roll, pitch, math.atan2(float(r[1, 0]), float(r[0, 0]))


def rotation_of_axis(direction: ArrayLike) -> NDArray[np.float64]:
    """Return a rotation, (3, 3), whose z axis points along a nonzero direction, (3,).

    The angle about the direction is arbitrary.
    """
    z = np.asarray(direction, dtype=np.float64)
    z = z / np.linalg.norm(z)
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    return np.column_stack((x, np.cross(z, x), z))


def look_at(direction: ArrayLike) -> NDArray[np.float64]:
    """Return the rotation of a camera in the world, (3, 3), that looks along its -z axis.

    Its y axis points up in the image: along the world's z, or x for a vertical direction.

    Args:
        direction: Viewing direction in the world, (3,).
    """
    z = -np.asarray(direction, dtype=np.float64)
    z = z / np.linalg.norm(z)
    x = np.cross((0.0, 0.0, 1.0), z)
    if np.linalg.norm(x) < 1e-6:
        x = np.cross((1.0, 0.0, 0.0), z)
    x /= np.linalg.norm(x)
    return np.column_stack((x, np.cross(z, x), z))


Point: TypeAlias = tuple[float, float, float]


def point_of(values: ArrayLike) -> Point:
    """Convert three numbers to a point.

    Raises:
        TypeError: The values are not numbers.
        ValueError: There are not three numbers.
    """
    x, y, z = np.asarray(values, dtype=np.float64).tolist()
    return x, y, z


@dataclass(frozen=True)
class Origin:
    """Pose of a frame in the frame of the parent link.

    Attributes:
        position: Position, (3,) [m].
        rpy: Fixed-axis angles in the convention of URDF [rad].
    """

    position: Point = (0.0, 0.0, 0.0)
    rpy: Point = (0.0, 0.0, 0.0)

    @classmethod
    def of(cls, pose: NDArray[np.float64]) -> Origin:
        """Return the origin with the pose of a homogeneous transform, (4, 4)."""
        x, y, z = pose[:3, 3].tolist()
        return cls((x, y, z), rpy_from_rotation(pose[:3, :3]))

    @property
    def rotation(self) -> NDArray[np.float64]:
        """Rotation matrix of the angles ``rpy``, (3, 3)."""
        return rotation_from_rpy(*self.rpy)


@dataclass(frozen=True)
class Capsule:
    """Capsule: all points within a radius of a line segment.

    Attributes:
        start: One end of the segment, in the frame of its link [m].
        end: Other end of the segment [m].
        radius: Radius [m].
    """

    start: Point
    end: Point
    radius: float


RGBA: TypeAlias = tuple[float, float, float, float]
COLORS: dict[str, RGBA] = {
    "shell": (0.93, 0.94, 0.95, 1.0),
    "seam": (0.16, 0.17, 0.19, 1.0),
    "cap": (0.72, 0.74, 0.77, 1.0),
    "dark": (0.20, 0.21, 0.23, 1.0),
    "metal": (0.62, 0.64, 0.67, 1.0),
    "rubber": (0.10, 0.10, 0.11, 1.0),
    "silver": (0.76, 0.77, 0.79, 1.0),
    "blue": (0.33, 0.58, 0.76, 1.0),
    "orange": (0.93, 0.42, 0.10, 1.0),
    "tool": (0.55, 0.57, 0.60, 1.0),
}
"""Colours of visual geometry: red, green, blue and opacity, 0 to 1."""


@dataclass(frozen=True)
class SolidOfRevolution:
    """Cone or cylinder with a flat or domed end on either side.

    Attributes:
        start: Centre of the first end, without its dome, in the frame of its link [m].
        end: Centre of the second end, without its dome [m].
        radius_start: Radius at the first end [m].
        radius_end: Radius at the second end [m].
        dome_start: Height of the dome on the first end, 0 for a flat one [m].
        dome_end: Height of the dome on the second end, 0 for a flat one [m].
        color: Key of :data:`COLORS`.
    """

    start: Point
    end: Point
    radius_start: float
    radius_end: float
    dome_start: float = 0.0
    dome_end: float = 0.0
    color: str = "shell"

    @property
    def length(self) -> float:
        """Distance between the two ends, without domes [m]."""
        return float(np.linalg.norm(np.subtract(self.end, self.start)))

    def outline(self, steps: int = 6) -> NDArray[np.float64]:
        """Return height above ``start`` and radius of the points of the profile, (n, 2) [m].

        ``steps`` is the number of rings per dome.
        """
        angle = np.linspace(0.0, np.pi / 2.0, steps + 1)
        first = np.array([[0.0, 0.0], [0.0, self.radius_start]])
        if self.dome_start > 0.0:
            first = np.column_stack(
                (-self.dome_start * np.cos(angle), self.radius_start * np.sin(angle))
            )
        last = np.array([[0.0, self.radius_end], [0.0, 0.0]])
        if self.dome_end > 0.0:
            last = np.column_stack(
                (self.dome_end * np.sin(angle), self.radius_end * np.cos(angle))
            )
        last[:, 0] += self.length
        return np.vstack((first, last))


@dataclass(frozen=True)
class Block:
    """Box that may be rotated about the x axis of its link.

    Attributes:
        center: Centre of the box, in the frame of its link [m].
        half_size: Half edges [m].
        roll: Rotation about the x axis of the link [rad].
        color: Key of :data:`COLORS`.
    """

    center: Point
    half_size: Point
    roll: float = 0.0
    color: str = "dark"
