# SPDX-License-Identifier: Apache-2.0
"""Spring wrench that is the gradient of a potential, however far a free tool has moved."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.state import Matrix, Vector

_SMALL = 1e-3
_ZERO = 1e-6
"""Stiffness of a direction over the largest one, below which it is zero."""


class ConservativeSpring:
    r"""Correct the wrench of a spring that leaves directions free.

    .. math::
        \mu' = \mu \mp \tfrac12\, \phi \times \mu + c\, \phi \times (\phi \times \mu)
        \;(+\, p \times f), \qquad
        c = \frac{1}{\theta^2} - \frac{1 + \cos\theta}{2\, \theta \sin\theta}, \qquad
        \theta = \|\phi\|

    with force f and torque :math:`\mu` of :math:`K e`, and the unclipped errors p and
    :math:`\phi`. The upper sign belongs to gains along the axes of the base, the lower sign and
    the last term to gains along the axes of the tool. :math:`K e` itself is a gradient only for
    small errors. A tool that the spring holds stays near its target. A free one moves far along
    its free directions, and on a closed path :math:`K e` then does work.

    The error is projected onto the range of K before it is clipped: clipped axis by axis,
    a large free error has a part along other directions.

    Thread: control.
    """

    def __init__(self) -> None:
        self._range = np.eye(6)
        self._far = np.zeros(6)

    def set_stiffness(self, stiffness: Matrix) -> None:
        """Set K, (6, 6)."""
        w, v = np.linalg.eigh(stiffness)
        held = v[:, w > _ZERO * max(float(w[-1]), _ZERO)]
        self._range = held @ held.T

    def project(self, error: Vector, share: float) -> None:
        """Store an unclipped error (6,) and subtract ``share`` of its free part, in place."""
        self._far[:] = error
        error += share * (self._range.dot(error) - error)

    def correct(self, wrench: Vector, share: float, in_tool: bool) -> None:
        """Add ``share`` of the correction to a wrench along the axes of the gains, in place.

        Args:
            wrench: Wrench of the spring, (6,) [N, Nm].
            share: Share of the correction, 0 to 1.
            in_tool: Whether the gains are given along the axes of the tool.
        """
        px, py, pz, x, y, z = self._far.tolist()
        fx, fy, fz, mx, my, mz = wrench.tolist()
        angle = math.sqrt(x * x + y * y + z * z)
        c = 1.0 / 12.0
        if angle > _SMALL:
            c = 1.0 / angle**2 - 0.5 / (angle * math.tan(0.5 * angle))
        ax, ay, az = y * mz - z * my, z * mx - x * mz, x * my - y * mx
        half = 0.5 if in_tool else -0.5
        tx = half * ax + c * (y * az - z * ay)
        ty = half * ay + c * (z * ax - x * az)
        tz = half * az + c * (x * ay - y * ax)
        if in_tool:
            tx, ty, tz = tx + py * fz - pz * fy, ty + pz * fx - px * fz, tz + px * fy - py * fx
        wrench[3] += share * tx
        wrench[4] += share * ty
        wrench[5] += share * tz
