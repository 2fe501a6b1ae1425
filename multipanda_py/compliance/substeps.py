# SPDX-License-Identifier: Apache-2.0
"""In how many steps springs and motors go through one step of the world."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from multipanda_py.compliance.equations import LINK, Equations
from multipanda_py.compliance.springs import JointSprings
from multipanda_py.exceptions import BackendError
from multipanda_py.state import Matrix, Vector

SHARE = 0.08
"""Largest substep by the inverse of the local frequency of springs: the fourth order then loses
less than 0.1 % of a vibration's energy in 10 s, up to 200 Hz."""
FAST_SHARE = 1.0
"""The same of controllers, friction and dampers, whose motions end soon."""
HELD_SHARE = 1.0
"""Up to this springs are stable, though no longer exact; what is stiffer is softened."""
MOST = 50
"""Substeps in a step, if nobody says."""


class Plan(NamedTuple):
    """What a step is divided into.

    Attributes:
        substeps: Their number.
        softness: What springs are scaled by; below 1 where so many cannot hold them.
        ease: What dampers between motors and links, and controllers of links, are scaled by;
            likewise.
        complaint: What cannot be held, in words, or nothing.
    """

    substeps: int
    softness: float
    ease: float
    complaint: str


def choose_substeps(
    springs: JointSprings,
    equations: Equations,
    x: Matrix,
    compliance: Matrix,
    damping: Vector,
    own_damping: Vector,
    duration: float,
    most: int,
) -> Plan:
    r"""Return how a step is divided, by the local frequency.

    With the links' stiffness :math:`\sigma` and the links' inverse inertia C,

    .. math:: \omega^2 \le \max_j \sum_k |C_{jk}|\, \sigma_k + \max_j \sigma_j / J_j

    since no eigenvalue of :math:`C \Sigma` is above the largest sum of a row, and what motors add
    to it is at most their own. A motor that moves a pivot s has a stiffness of its own and one
    that mixes both: with its mass m,

    .. math::
        \omega^2 \le \max\left(\omega^2, \max_j \frac{1}{m_j}
        \left|\frac{\partial F_j}{\partial s_j}\right|\right) + \max_j
        \left|\frac{\partial \tau_j}{\partial s_j}\right|
        \sqrt{\frac{1}{m_j} \left(\sum_k |C_{jk}| + \frac{1}{J_j}\right)}

    Args:
        springs: Between motors and links.
        equations: Of motors and controllers.
        x: Positions of links and motors, (3, n) [rad].
        compliance: C, (n, n) [1/(kg m^2)].
        damping: Of the links' own joints, (n,) [Nm s/rad].
        own_damping: Between motors and links, (n,) [Nm s/rad].
        duration: Of the step [s].
        most: Largest number of substeps.

    Raises:
        BackendError: If the frequency is not finite.
    """
    sigma = np.abs(springs.largest_stiffness(x[0], x[1:])) * equations.elastic
    sigma += equations.gains[0, LINK]
    reach = np.abs(compliance)
    moving = (sigma * equations.lightness).ravel().tolist()
    square = max(reach.dot(sigma).tolist()) + max(moving)
    if springs.moves_pivots and equations.lightness[1].any():
        square = _with_pivots(square, springs, equations, x, reach)
    omega = math.sqrt(square)
    held = HELD_SHARE * most / duration
    eased = own_damping * equations.elastic
    drag = eased + equations.gains[2, LINK]
    dampers = max((reach.dot(drag) + eased * equations.lightness).ravel().tolist())
    fastest = max(equations.fastest, dampers, *reach.dot(damping).tolist())
    wanted = duration * max(omega / SHARE, fastest / FAST_SHARE)
    if not math.isfinite(wanted):
        raise BackendError(
            f"springs: got stiffness {sigma.tolist()!r:.200} Nm/rad at {x.tolist()!r:.200} rad, "
            "allowed what is finite"
        )
    count = max(1, math.ceil(wanted))
    complaint, softness, ease = "", 1.0, min(1.0, held / max(dampers, held))
    if omega * duration > math.pi:
        complaint = (
            f"springs vibrate at {omega / math.tau:.0f} Hz: a step of {1e3 * duration:.3g} ms is "
            "more than half of that period, and may resonate; allowed up to "
            f"{1e3 * math.pi / omega:.3g} ms"
        )
    if count > most:
        count = most
    if duration * omega / SHARE > most:
        complaint = (
            f"springs of {sigma.max():.4g} Nm/rad vibrate at {omega / math.tau:.0f} Hz: {most} "
            f"substeps in {1e3 * duration:.3g} ms are exact up to "
            f"{SHARE / HELD_SHARE * held / math.tau:.0f} Hz"
        )
        if omega > held:
            softness = (held / omega) ** 2
            complaint += f"; they are softened by {softness:.2g}"
    elif max(fastest, equations.wanted) > held:
        complaint = (
            f"motors, controllers and dampers respond at {max(fastest, equations.wanted):.4g} "
            f"1/s: {most} substeps in {1e3 * duration:.3g} ms hold up to {held:.4g} 1/s; motors "
            "are taken as heavier and dampers as weaker, as far as that needs"
        )
    return Plan(count, softness, ease, complaint)


def _with_pivots(
    square: float, springs: JointSprings, equations: Equations, x: Matrix, reach: Matrix
) -> float:
    """Return the square of the frequency with what motors of pivots add to it."""
    first, second = equations.lightness
    own, mixed = springs.pivot_slopes(x[0], x[1:])
    cross = np.abs(mixed) * np.sqrt(second * (reach.sum(axis=1) + first))
    return float(max(square, *(np.abs(own) * second).tolist()) + max(cross.tolist()))
