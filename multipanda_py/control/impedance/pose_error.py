# SPDX-License-Identifier: Apache-2.0
"""The error of a pose, as far as a spring may act on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import numpy as np
import pinocchio as pin

from multipanda_py.state import Matrix, Vector


def weighed(a: Sequence[float], s: float, b: Sequence[float], t: float) -> list[float]:
    """Return a s + b t, of as many numbers as both have."""
    if len(a) == 3:
        (ax, ay, az), (bx, by, bz) = a, b
        return [ax * s + bx * t, ay * s + by * t, az * s + bz * t]
    return [x * s + y * t for x, y in zip(a, b)]


def difference(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return a - b, of as many numbers as both have."""
    if len(a) == 3:
        (ax, ay, az), (bx, by, bz) = a, b
        return [ax - bx, ay - by, az - bz]
    return [x - y for x, y in zip(a, b)]


def scaled(a: Sequence[float], s: float) -> list[float]:
    """Return a s."""
    if len(a) == 3:
        x, y, z = a
        return [x * s, y * s, z * s]
    return [x * s for x in a]


_minimum, _maximum = np.minimum, np.maximum
_log3, _norm, _pack = pin.log3, math.hypot, Struct("6d").pack_into


class PoseError:
    r"""The way from a pose to the one that is wanted, bounded per axis.

    .. math::
        e = \begin{bmatrix} p_d - p \\ \log(R_d R^T)^\vee \end{bmatrix}, \qquad
        \mathrm{clip}(e)_i = \max(-b_i, \min(b_i, e_i))

    Measuring and clipping are two steps, for the bounds belong to the axes of the gains: who
    has these elsewhere turns ``value`` in between. Six numbers are faster as floats.

    Args:
        value: Where the error is written, (6,); an array of its own by default.

    Attributes:
        value: The error, along the axes that the poses are given in until somebody turns it,
            (6,) [m, rad]; updated in place.
        bounds: Largest error per axis, (6,) [m, rad]; infinite until set.
        size: Norm of what was measured last, unbounded.

    Thread: control.
    """

    def __init__(self, value: Vector | None = None) -> None:
        self.value = np.zeros(6) if value is None else value
        self._raw, self._turned, self.size = self.value.data, np.zeros((3, 3)), 0.0
        self.set_bounds(np.full(6, np.inf))

    def set_bounds(self, bounds: Vector) -> None:
        """Set the largest error per axis, (6,) [m, rad]."""
        self.bounds = np.array(bounds)
        self._lowest = -self.bounds
        self._least = float(self.bounds.min())

    def measure(
        self,
        position: Vector,
        rotation: Matrix,
        wanted_position: Vector,
        wanted_rotation: Matrix,
        shift: Vector | None = None,
    ) -> Vector:
        """Return the error of a pose, unbounded, (6,) [m, rad].

        Args:
            position: Where it is, (3,) [m].
            rotation: How it is turned, (3, 3).
            wanted_position: Where it should be, in the same frame, (3,) [m].
            wanted_rotation: How it should be turned, (3, 3).
            shift: What is added to the error, (6,) [m, rad]; None is nothing.
        """
        px, py, pz = position.tolist()
        x, y, z = wanted_position.tolist()
        rx, ry, rz = _log3(wanted_rotation.dot(rotation.T, self._turned)).tolist()
        x, y, z = x - px, y - py, z - pz
        if shift is not None:
            sx, sy, sz, tx, ty, tz = shift.tolist()
            x, y, z, rx, ry, rz = x + sx, y + sy, z + sz, rx + tx, ry + ty, rz + tz
        self.size = _norm(x, y, z, rx, ry, rz)
        _pack(self._raw, 0, x, y, z, rx, ry, rz)
        return self.value

    def clip_measured(self) -> Vector:
        """Do what :meth:`clip` does with what was measured last, which only has been turned."""
        return self.clip() if self.size > self._least else self.value

    def clip(self) -> Vector:
        """Bound the error in place and return it, (6,) [m, rad]."""
        error = self.value
        if _norm(*error.tolist()) > self._least:  # else no element is beyond any bound
            _minimum(error, self.bounds, out=error)
            _maximum(error, self._lowest, out=error)
        return error
