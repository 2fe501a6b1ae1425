# SPDX-License-Identifier: Apache-2.0
"""What the leader of a teleoperation is to feel of the follower's contacts."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.virtual_body import length, remaining
from multipanda_py.state import Matrix, Vector

_dot, _multiply, _subtract, _add = np.dot, np.multiply, np.subtract, np.add


class ForceReflection:
    r"""Filter a wrench, take noise out of it, bound it and scale it.

    .. math::
        \dot y = (C^T F_{ext} - y) / T_f, \qquad
        z = \mathrm{dead}(y, F_0), \qquad
        F_{fb} = g\, z \min\left(1, \frac{F_{max}}{|z|}\right)

    for force and torque each, with their own deadbands and bounds. Below half of the deadband
    nothing is left, so that what remains of an error of the estimate moves no hand; above one
    and a half of it the deadband is taken off. There is no corner, and no slope above one
    (:func:`~multipanda_py.control.virtual_body.remaining`): the deadband adds no gain to the loop.

    Attributes:
        wrench: What the leader feels, in its base, (6,) [N, Nm].
        force: Size of the force [N].
        torque: Size of the torque [Nm].
        touch: How much of a contact there is: 0 within the deadband, near 1 far above it.

    Thread: control.
    """

    def __init__(self) -> None:
        self.wrench, self._filtered, self._new = np.zeros(6), np.zeros(6), np.zeros(6)
        self.force = self.torque = self.touch = 0.0
        self._share = 1.0
        self._parts = [
            (self._filtered[:3], self.wrench[:3]),
            (self._filtered[3:], self.wrench[3:]),
        ]
        self._shapes = [(0.0, math.inf, 1.0), (0.0, math.inf, 1.0)]

    def set_filter(self, time_constant: float, period: float) -> None:
        """Set the filter's time constant [s]; zero is no filter."""
        self._share = -math.expm1(-period / time_constant) if time_constant > 0.0 else 1.0

    def set_shape(
        self, force: tuple[float, float, float], torque: tuple[float, float, float]
    ) -> None:
        """Set deadband, bound and gain of force [N] and torque [Nm]."""
        self._shapes = [force, torque]

    def reset(self) -> None:
        """Forget what was felt before."""
        self._filtered[:] = 0.0

    def feel(self, wrench: Vector, turn: Matrix) -> Vector:
        """Take one cycle's wrench in, (6,) along the follower's base; return :attr:`wrench`.

        Args:
            wrench: On the follower's tool, by the world [N, Nm].
            turn: From the axes of the leader's base to those of the follower's, (3, 3).
        """
        new = self._new
        _dot(wrench[:3], turn, new[:3])
        _dot(wrench[3:], turn, new[3:])
        _subtract(new, self._filtered, new)
        _add(self._filtered, _multiply(new, self._share, new), self._filtered)
        sizes, self.touch = [], 0.0
        for (y, out), (deadband, bound, gain) in zip(self._parts, self._shapes):
            kept = remaining(y, deadband)
            size = kept * length(y)
            factor = gain * kept * (bound / size if size > bound else 1.0)
            _multiply(y, factor, out)
            sizes.append(gain * min(size, bound))
            self.touch = max(self.touch, kept)
        self.force, self.torque = sizes
        return self.wrench
