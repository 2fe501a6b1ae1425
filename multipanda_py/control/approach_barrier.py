# SPDX-License-Identifier: Apache-2.0
"""How fast two bodies may come nearer, and the torque that keeps them to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.state import Matrix, Vector

_dot = np.dot

MAX_FORCE = 2000.0
"""Largest force by which one pair is stopped [N]; joints that hardly move it stay bounded."""
_SWEEPS = 20
_SOFT = 1e-4  # [1/kg], where an arm can hardly part a pair
_DEEPEST = -0.02  # of what counts as penetration [m]: it drives apart no faster than that asks


class ApproachBarrier:
    r"""Bound the speed of approach by what a bounded deceleration can take away.

    At distance d, with :math:`h = d - d_{stop}`, two bodies may come nearer at

    .. math::
        v(h) = \frac{a}{p} \left( \sqrt{1 + 2 p^2 h / a} - 1 \right) \quad (h \ge 0), \qquad
        v(h) = p\, h \quad (h < 0)

    which is :math:`p h` near the end and :math:`\sqrt{2 a h}` far from it: kept with a
    deceleration of at most a. It is kept if

    .. math::
        \ddot d \ge -v'(h)\, \dot d - p \left( \dot d + v(h) \right)

    at all times, at rest in front of the end a critically damped approach with the poles
    :math:`-p`. Source: Ames, Coogan, Egerstedt, Notomista, Sreenath and Tabuada, European
    Control Conference 2019 (control barrier functions); the curve is the one that stops.

    Attributes:
        stop: d_stop, the distance that is kept [m].

    Thread: control.
    """

    def __init__(self) -> None:
        self.set(0.015, 8.0, 20.0)

    def set(self, stop: float, deceleration: float, bandwidth: float) -> None:
        """Set d_stop [m], a [m/s^2] and p [1/s]; p = 0 bounds nothing."""
        self.stop, self._a, self._p = stop, deceleration, bandwidth
        self._base = self._sooner = self._slow = self._fast = 0.0
        if bandwidth > 0.0:  # the coefficients of what reach() computes
            self._base, self._sooner = stop, deceleration / bandwidth
            self._slow, self._fast = 1.0 / bandwidth, 0.5 / deceleration

    def allowed(self, distance: float, stop: float) -> tuple[float, float]:
        """Return v(h) [m/s] and its slope [1/s]; infinite if nothing is bounded."""
        a, p, h = self._a, self._p, distance - stop
        if p <= 0.0:
            return math.inf, 0.0
        if h < 0.0:
            return p * max(h, _DEEPEST), p
        root = math.sqrt(1.0 + 2.0 * p * p * h / a)
        return a / p * (root - 1.0), p / root

    def reach(self, speed: float) -> float:
        """Return the distance from which a pair that nears at ``speed`` [m/s] matters [m].

        It is where v(h) is larger by a / p: from there on, even a law that drives the bodies
        together with the acceleration a is let go on.
        """
        faster = (speed if speed > 0.0 else 0.0) + self._sooner
        return self._base + faster * (self._slow + faster * self._fast)

    def required(self, distance: float, speed: float, stop: float) -> float:
        """Return the least acceleration of the distance [m/s^2] at an approach ``speed``."""
        most, slope = self.allowed(distance, stop)
        return slope * speed + self._p * (speed - most)


def settle(
    needs: Sequence[float], gradients: Matrix, responses: Matrix, acceleration: Vector
) -> Vector | None:
    r"""Find forces that give every pair what it needs, as contacts would.

    .. math::
        \ddot d_j = g_j^T \left( \ddot q + M^{-1} \sum_k g_k \lambda_k \right)
        \ge \ddot d_{j,min}, \qquad \lambda_j \ge 0

    by a few sweeps of projected Gauss-Seidel; a force acts along its pair's normal only, so
    motion across it stays free.

    Args:
        needs: Least acceleration of every distance [m/s^2].
        gradients: Derivatives of the distances by all joints, (n, joints) [m/rad].
        responses: Their products with the inverse inertia, (n, joints).
        acceleration: Of the joints without these forces, (joints,) [rad/s^2].

    Returns:
        The forces, (n,) [N], or None if none is needed.
    """
    missing = (needs - _dot(gradients, acceleration)).tolist()
    if max(missing) <= 0.0:
        return None
    coupling = _dot(gradients, responses.T).tolist()
    forces = [0.0] * len(missing)
    for _ in range(_SWEEPS):
        largest = 0.0
        for row in range(len(missing)):
            if missing[row] <= 0.0 and not forces[row]:
                continue
            weights = coupling[row]
            force = min(max(forces[row] + missing[row] / (weights[row] + _SOFT), 0.0), MAX_FORCE)
            change = force - forces[row]
            if change:
                forces[row] = force
                missing = [m - w * change for m, w in zip(missing, weights)]
                largest = max(largest, abs(change))
        if largest < 1e-2:
            break
    return np.array(forces)
