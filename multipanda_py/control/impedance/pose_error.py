# SPDX-License-Identifier: Apache-2.0
"""Pose error with bounds per axis, and vector arithmetic on short lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import numpy as np
import pinocchio as pin
from numpy import add, maximum, minimum, multiply

from multipanda_py.state import Matrix, Vector


def weighed(a: Sequence[float], s: float, b: Sequence[float], t: float) -> list[float]:
    """Return a s + b t for lists of equal length."""
    if len(a) == 3:
        (ax, ay, az), (bx, by, bz) = a, b
        return [ax * s + bx * t, ay * s + by * t, az * s + bz * t]
    return [x * s + y * t for x, y in zip(a, b)]


def difference(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return a - b for lists of equal length."""
    if len(a) == 3:
        (ax, ay, az), (bx, by, bz) = a, b
        return [ax - bx, ay - by, az - bz]
    return [x - y for x, y in zip(a, b)]


def scaled(a: Sequence[float], s: float) -> list[float]:
    if len(a) == 3:
        x, y, z = a
        return [x * s, y * s, z * s]
    return [x * s for x in a]


def sum_of(total: Vector, first: Vector | None, second: Vector | None = None) -> Vector:
    """Add one or two terms to a vector in place, and return it.

    Args:
        total: Vector to which the terms are added, (n,).
        first: First term, (n,); None means zero.
        second: Second term, (n,); None means zero.
    """
    if first is not None:
        add(total, first, total)
    if second is not None:
        add(total, second, total)
    return total


def scale_by(vector: Vector, scale: float) -> Vector:
    """Multiply a vector by a scale in place, and return it."""
    return vector if scale == 1.0 else multiply(vector, scale, vector)


_log3, _norm, _pack = pin.log3, math.hypot, Struct("6d").pack_into


class PoseError:
    """Error from a pose to a target pose, bounded per axis.

    Equations::

        e = [p_d - p; log(R_d R^T)]
        clip(e)_i = max(-b_i, min(b_i, e_i))

    - e: Pose error, (6,) [m, rad].
    - p, R: Position [m] and rotation of the pose; p_d, R_d: of the target pose.
    - b: Bounds per axis, (6,) [m, rad].

    To bound the error along other axes, such as those of the tool, rotate ``value`` before
    ``clip_measured``.

    Args:
        value: Output array of the error, (6,); a new array by default.

    Attributes:
        value: Error e, (6,) [m, rad].
        bounds: Maximum error per axis, (6,) [m, rad]; infinite by default.
        size: Norm of the last measured error before clipping.

    Thread: control.
    """

    def __init__(self, value: Vector | None = None) -> None:
        self.value = np.zeros(6) if value is None else value
        self._raw, self._turned, self.size = self.value.data, np.zeros((3, 3)), 0.0
        self._measured, self._transposed = self._turned, self._turned.T
        self.set_bounds(np.full(6, np.inf))

    def set_bounds(self, bounds: Vector) -> None:
        """Set the maximum error per axis, (6,) [m, rad]."""
        self.bounds = np.array(bounds)
        self._lowest = -self.bounds
        self._min = float(self.bounds.min())

    def measure(
        self,
        position: Vector,
        rotation: Matrix,
        desired_position: Vector,
        desired_rotation: Matrix,
        shift: Vector | None = None,
    ) -> Vector:
        """Return the unbounded error of a pose, (6,) [m, rad].

        Args:
            position: Measured position, (3,) [m].
            rotation: Measured rotation, (3, 3).
            desired_position: Target position in the same frame, (3,) [m].
            desired_rotation: Target rotation, (3, 3).
            shift: Vector added to the error, (6,) [m, rad]; None means zero.
        """
        px, py, pz = position.tolist()
        x, y, z = desired_position.tolist()
        # Callers usually pass the same array in each cycle, so keep its transposed view.
        if rotation is not self._measured:
            self._measured, self._transposed = rotation, rotation.T
        rx, ry, rz = _log3(desired_rotation.dot(self._transposed, self._turned)).tolist()
        x, y, z = x - px, y - py, z - pz
        if shift is not None:
            sx, sy, sz, tx, ty, tz = shift.tolist()
            x, y, z, rx, ry, rz = x + sx, y + sy, z + sz, rx + tx, ry + ty, rz + tz
        self.size = _norm(x, y, z, rx, ry, rz)
        _pack(self._raw, 0, x, y, z, rx, ry, rz)
        return self.value

    def clip_measured(self) -> Vector:
        """Clip the error of the last ``measure`` in place, and return it, (6,) [m, rad].

        Before this call, the error may be rotated or reduced, but its norm must not increase.
        """
        return self.clip() if self.size > self._min else self.value

    def clip(self) -> Vector:
        """Clip the error in place to the bounds of ``set_bounds``; return it, (6,) [m, rad]."""
        error = self.value
        # If the norm is below the smallest bound, no element exceeds its bound.
        if _norm(*error.tolist()) > self._min:
            minimum(error, self.bounds, out=error)
            maximum(error, self._lowest, out=error)
        return error
