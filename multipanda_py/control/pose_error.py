# SPDX-License-Identifier: Apache-2.0
"""The error of a pose, as far as a spring may act on it."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from multipanda_py.state import Matrix, Vector

_subtract, _minimum, _maximum = np.subtract, np.minimum, np.maximum
_log3, _norm = pin.log3, math.hypot


class PoseError:
    r"""The way from a pose to the one that is wanted, bounded per axis.

    .. math::
        e = \begin{bmatrix} p_d - p \\ \log(R_d R^T)^\vee \end{bmatrix}, \qquad
        \mathrm{clip}(e)_i = \max(-b_i, \min(b_i, e_i))

    Measuring and clipping are two steps, for the bounds belong to the axes of the gains: who
    has these elsewhere turns ``value`` in between.

    Attributes:
        value: The error, along the axes that the poses are given in until somebody turns it,
            (6,) [m, rad]; updated in place.
        bounds: Largest error per axis, (6,) [m, rad]; infinite until set.

    Thread: control.
    """

    def __init__(self) -> None:
        self.value = np.zeros(6)
        self._position, self._rotation = self.value[:3], self.value.data[3:]
        self._turned = np.zeros((3, 3))
        self.set_bounds(np.full(6, np.inf))

    def set_bounds(self, bounds: Vector) -> None:
        """Set the largest error per axis, (6,) [m, rad]."""
        self.bounds = np.array(bounds)
        self._lowest = -self.bounds
        self._least = float(self.bounds.min())

    def measure(
        self, position: Vector, rotation: Matrix, wanted_position: Vector, wanted_rotation: Matrix
    ) -> Vector:
        """Return the error of a pose, unbounded, (6,) [m, rad].

        Args:
            position: Where it is, (3,) [m].
            rotation: How it is turned, (3, 3).
            wanted_position: Where it should be, in the same frame, (3,) [m].
            wanted_rotation: How it should be turned, (3, 3).
        """
        _subtract(wanted_position, position, self._position)
        self._rotation[:] = _log3(wanted_rotation.dot(rotation.T, self._turned))
        return self.value

    def clip(self) -> Vector:
        """Bound the error in place and return it, (6,) [m, rad]."""
        error = self.value
        if _norm(*error.tolist()) > self._least:  # else no element is beyond any bound
            _minimum(error, self.bounds, out=error)
            _maximum(error, self._lowest, out=error)
        return error
