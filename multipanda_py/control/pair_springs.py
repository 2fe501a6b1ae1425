# SPDX-License-Identifier: Apache-2.0
"""How hard bodies that are near push one another apart."""

from __future__ import annotations

import numpy as np

from multipanda_py.control.rate_bound import share_within
from multipanda_py.state import Matrix, Vector

_minimum, _maximum = np.minimum, np.maximum
_TINY = 1e-12
SPRING_RATE, DAMPER_RATE = 2500.0, 30.0
"""Most stiffness over inertia of what pushes, and fastest that it brakes [1/s^2, 1/s]."""


def push_apart(
    depths: Vector, rates: Vector, coupling: Matrix, slope: float, ratio: float
) -> Vector:
    r"""Return the forces of all pairs.

    Of each, at a depth :math:`x \ge 0` and alone,

    .. math::
        F = \max(0, f(x) - 2 \zeta \sqrt{f'(x)\, m}\, \dot d), \qquad m = 1 / W_{jj}, \qquad
        f'(x) = \min(2 s x, m\, r_s)

    f is :math:`s x^2`, and goes on as a line where it would be too stiff for the inertia m: an
    arm that is late would swing behind it. Pairs that act on the same motion share it, with

    .. math::
        1 / s_j = \sum_k \frac{\max(W_{jk}, 0)}{\sqrt{W_{jj} W_{kk}}}
        \min\left(1, \frac{f(x_k)}{f(x_j)}\right)

    and what springs and dampers of all pairs still add up to is kept within the rates
    ``SPRING_RATE`` and ``DAMPER_RATE`` (:mod:`~multipanda_py.control.rate_bound`).

    Args:
        depths: By how much each pair is nearer than where it begins to push, (n,) [m].
        rates: Derivative of their distances, (n,) [m/s].
        coupling: W: acceleration of a distance per force on another, (n, n) [1/kg].
        slope: s [N/m^2].
        ratio: :math:`\zeta`.
    """
    depths = _maximum(depths, 0.0)
    if slope <= 0.0 or not depths.any():
        return np.zeros(len(depths))
    inverse = np.diagonal(coupling) + _TINY
    stiffest = SPRING_RATE / inverse
    soft = _minimum(depths, 0.5 * stiffest / slope)
    forces = slope * soft * soft + stiffest * (depths - soft)
    # What the others do that act on the same motion, as a part of what this one does
    likeness = _maximum(coupling, 0.0) / np.sqrt(np.outer(inverse, inverse))
    np.fill_diagonal(likeness, 1.0)
    others = _minimum(1.0, forces[None, :] / _maximum(forces[:, None], _TINY))
    shares = 1.0 / _maximum((likeness * others).sum(axis=1), 1.0)
    stiffnesses = 2.0 * slope * soft
    shares *= share_within(shares * stiffnesses, coupling, SPRING_RATE)
    dampings = shares * (2.0 * ratio * np.sqrt(stiffnesses / inverse))
    dampings *= share_within(dampings, coupling, DAMPER_RATE)
    pushes: Vector = _maximum(shares * forces - dampings * rates, 0.0)
    return pushes
