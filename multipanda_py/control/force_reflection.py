# SPDX-License-Identifier: Apache-2.0
"""What the leader of a teleoperation is to feel of the follower's contacts."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.state import Matrix, Vector

_dot, _multiply, _subtract, _add = np.dot, np.multiply, np.subtract, np.add


class ForceReflection:
    r"""Filter a wrench, take noise out of it, bound it and scale it.

    .. math::
        \dot y = (C^T F_{ext} - y) / T_f, \qquad
        z = y \frac{|y|^2}{|y|^2 + F_0^2}, \qquad
        F_{fb} = g\, z \min\left(1, \frac{F_{max}}{|z|}\right)

    for force and torque each, with their own thresholds and bounds. The dead zone has no
    corner and no offset: far below the threshold :math:`F_0` the wrench vanishes with its third
    power, at the threshold half of it is left, far above all; its slope is at most 9/8.

    Attributes:
        wrench: What the leader feels, in its base, (6,) [N, Nm].
        force: Size of the force [N].
        torque: Size of the torque [Nm].

    Thread: control.
    """

    STEEPEST = 9.0 / 8.0
    """Largest slope of the dead zone."""

    def __init__(self) -> None:
        self.wrench, self._filtered, self._new = np.zeros(6), np.zeros(6), np.zeros(6)
        self.force = self.torque = 0.0
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
        """Set threshold, bound and gain of force [N] and torque [Nm]."""
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
        sizes = []
        for (y, out), (threshold, bound, gain) in zip(self._parts, self._shapes):
            square = float(_dot(y, y))
            kept = square / (square + threshold * threshold + 1e-30)
            size = kept * math.sqrt(square)
            factor = gain * kept * (bound / size if size > bound else 1.0)
            _multiply(y, factor, out)
            sizes.append(gain * min(size, bound))
        self.force, self.torque = sizes
        return self.wrench
