# SPDX-License-Identifier: Apache-2.0
"""Validated rigid-body pose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.exceptions import TargetRejected
from multipanda_py.state import Matrix, Vector

QUATERNION_TOLERANCE = 1e-2
"""Maximum deviation of a quaternion's norm from 1. Within it the quaternion is normalised."""
_THREE_HALVES = 1.5 * np.eye(3)


@dataclass(frozen=True, eq=False)
class Pose:
    """Position and orientation of one frame in another.

    Attributes:
        position: Position, (3,) [m], read-only.
        rotation: Rotation matrix, (3, 3), read-only.
    """

    position: Vector
    rotation: Matrix

    def __post_init__(self) -> None:
        position = _finite("position", self.position, (3,))
        rotation = _finite("rotation", self.rotation, (3, 3))
        if not _is_rotation(*rotation.ravel().tolist()):
            raise TargetRejected(
                "rotation: got a matrix that is not a rotation, allowed R R^T = I and det R = 1"
            )
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "rotation", rotation)

    @classmethod
    def from_quaternion(cls, position: ArrayLike, xyzw: Sequence[float]) -> Pose:
        """Create a pose from a quaternion in ROS order.

        Args:
            position: Position, (3,) [m].
            xyzw: Quaternion x, y, z, w.

        Raises:
            TargetRejected: If a number is not finite, or the norm deviates from 1 by more than
                ``QUATERNION_TOLERANCE``.
        """
        quaternion = _finite("quaternion", xyzw, (4,)).tolist()
        return cls.from_floats(_finite("position", position, (3,)).tolist(), quaternion)

    @classmethod
    def from_floats(cls, position: Sequence[float], xyzw: Sequence[float]) -> Pose:
        """Create a pose from Python floats, faster than :meth:`from_quaternion`.

        Raises:
            TargetRejected: If :meth:`from_quaternion` would reject the pose.
        """
        x, y, z, w = xyzw
        norm = math.hypot(x, y, z, w)
        if not abs(norm - 1.0) <= QUATERNION_TOLERANCE:
            if not math.isfinite(norm):
                raise TargetRejected(f"quaternion: got {[*xyzw]}, allowed finite numbers")
            raise TargetRejected(
                f"quaternion: got norm {norm:.4g}, allowed 1 +- {QUATERNION_TOLERANCE:g}"
            )
        if not all(map(math.isfinite, position)):
            raise TargetRejected(f"position: got {[*position]}, allowed finite numbers")
        record = np.array((*position, *_rotation_rows(x / norm, y / norm, z / norm, w / norm)))
        record.setflags(write=False)
        # Skip the constructor and its checks: the rotation of a unit quaternion is valid.
        pose = object.__new__(cls)
        vars(pose).update(position=record[:3], rotation=record[3:].reshape(3, 3), record=record)
        return pose

    @classmethod
    def from_rpy(cls, position: ArrayLike, rpy: Sequence[float]) -> Pose:
        """Create a pose from a position [m] and roll, pitch, yaw about fixed axes (URDF) [rad]."""
        roll, pitch, yaw = _finite("rpy", rpy, (3,))
        return cls(_finite("position", position, (3,)), pin.rpy.rpyToMatrix(roll, pitch, yaw))

    @classmethod
    def identity(cls) -> Pose:
        return cls(np.zeros(3), np.eye(3))

    @cached_property
    def record(self) -> Vector:
        """Pose as one read-only array (12,): position [m], then rotation matrix row by row."""
        record = np.concatenate([self.position, self.rotation.reshape(-1)])
        record.setflags(write=False)
        return record

    @property
    def quaternion_xyzw(self) -> Vector:
        """Orientation as a unit quaternion in ROS order, (4,)."""
        return np.array(quaternion_from_rotation(self.rotation))

    def __matmul__(self, other: Pose) -> Pose:
        """Compose two transforms: ``a_in_b @ b_in_c`` as for matrices."""
        return Pose(
            self.position + self.rotation @ other.position,
            _without_rounding_errors(self.rotation @ other.rotation),
        )

    def inverse(self) -> Pose:
        return Pose(-self.rotation.T @ self.position, self.rotation.T)

    def with_position(self, position: ArrayLike) -> Pose:
        """Return a pose with the same orientation at another position, (3,) [m]."""
        # Skip the constructor and its checks: this rotation is valid.
        pose = object.__new__(Pose)
        object.__setattr__(pose, "position", _finite("position", position, (3,)))
        object.__setattr__(pose, "rotation", self.rotation)
        return pose

    def clipped(
        self, position: Vector, rotation: Matrix, max_distance: float, max_angle: float
    ) -> Pose:
        """Return this pose, moved to within given limits of another pose.

        Position and rotation are limited separately.

        Args:
            position: Position of the other pose, (3,) [m].
            rotation: Rotation of the other pose, (3, 3).
            max_distance: Maximum distance from the other pose [m].
            max_angle: Maximum angle from the other pose [rad].
        """
        distance, angle = self.distance_from(position, rotation)
        axis = pin.log3(rotation.T @ self.rotation)
        return Pose(
            position + (self.position - position) * min(1.0, max_distance / max(distance, 1e-12)),
            _without_rounding_errors(
                rotation @ pin.exp3(axis * min(1.0, max_angle / max(angle, 1e-12)))
            ),
        )

    def interpolate(self, end: Pose, fraction: float) -> Pose:
        r"""Return the pose at a fraction s of the straight path to another pose.

        .. math:: p = p_0 + s (p_1 - p_0), \qquad R = R_0 \exp(s \log R_0^T R_1)

        with the positions p and rotations R of this pose (index 0) and of the other one (index 1).

        Args:
            end: Pose at the end of the path.
            fraction: Fraction s, 0 to 1.
        """
        rotation_vector = pin.log3(self.rotation.T @ end.rotation)
        return Pose(
            self.position + fraction * (end.position - self.position),
            self.rotation @ pin.exp3(fraction * rotation_vector),
        )

    def distance(self, other: Pose) -> tuple[float, float]:
        """Return the distance [m] and the angle [rad] to another pose."""
        return self.distance_from(other.position, other.rotation)

    def distance_from(self, position: Vector, rotation: Matrix) -> tuple[float, float]:
        """Return the distance [m] and the angle [rad] to a position (3,) and rotation (3, 3)."""
        rotation_vector = pin.log3(rotation.T.dot(self.rotation)).tolist()
        return math.dist(self.position.tolist(), position.tolist()), math.hypot(*rotation_vector)


def _rotation_rows(x: float, y: float, z: float, w: float) -> tuple[float, ...]:
    r"""Return :math:`1 + 2 w [v]_\times + 2 [v]_\times^2`, v = (x, y, z), row by row."""
    xw, yw, zw = 2.0 * x * w, 2.0 * y * w, 2.0 * z * w
    xx, xy, xz = 2.0 * x * x, 2.0 * x * y, 2.0 * x * z
    yy, yz, zz = 2.0 * y * y, 2.0 * y * z, 2.0 * z * z
    return (
        *(1.0 - (yy + zz), xy - zw, xz + yw),
        *(xy + zw, 1.0 - (xx + zz), yz - xw),
        *(xz - yw, yz + xw, 1.0 - (xx + yy)),
    )


def _is_rotation(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float, i: float
) -> bool:
    # Plain floats are much faster than NumPy.
    off = max(
        abs(a * a + b * b + c * c - 1.0),
        abs(d * d + e * e + f * f - 1.0),
        abs(g * g + h * h + i * i - 1.0),
        abs(a * d + b * e + c * f),
        abs(a * g + b * h + c * i),
        abs(d * g + e * h + f * i),
    )
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return off <= 1e-6 and determinant > 0.0


def _without_rounding_errors(rotation: Matrix) -> Matrix:
    # One Newton step reduces an error of 1e-6 to about 1e-12.
    result: Matrix = rotation @ (_THREE_HALVES - 0.5 * (rotation.T @ rotation))
    return result


def are_finite(array: Vector) -> bool:
    """Return True if all numbers are finite."""
    # The dot product is tested first, three times faster than a test of each number.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def _finite(description: str, values: ArrayLike, shape: tuple[int, ...]) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(
            f"{description}: got {values!r:.60}, allowed numbers of shape {shape}"
        ) from None
    if array.shape != shape:
        raise TargetRejected(f"{description}: got shape {array.shape}, allowed {shape}")
    if not are_finite(array):
        raise TargetRejected(f"{description}: got {array.tolist()}, allowed finite numbers")
    array.setflags(write=False)
    return array


def quaternion_from_rotation(rotation: Matrix) -> tuple[float, float, float, float]:
    r"""Return the unit quaternion x, y, z, w of a rotation matrix R (Shepperd, 1978).

    .. math::
        4 w^2 = 1 + tr R, \qquad
        4 w (x, y, z) = (R_{32} - R_{23}, R_{13} - R_{31}, R_{21} - R_{12})

    for the largest component w, which is positive. For x, y or z it is analogous.

    Thread: any.
    """
    # ``pin.Quaternion(R)`` leaks 80 bytes per call in eigenpy 3.13.
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation.tolist()
    trace = xx + yy + zz
    if trace > 0.0:
        x, y, z, w = zy - yz, xz - zx, yx - xy, 1.0 + trace
    elif xx >= yy and xx >= zz:
        x, y, z, w = 1.0 + xx - yy - zz, xy + yx, xz + zx, zy - yz
    elif yy >= zz:
        x, y, z, w = xy + yx, 1.0 + yy - zz - xx, yz + zy, xz - zx
    else:
        x, y, z, w = xz + zx, yz + zy, 1.0 + zz - xx - yy, yx - xy
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return x / norm, y / norm, z / norm, w / norm
