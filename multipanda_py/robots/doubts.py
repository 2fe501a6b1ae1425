# SPDX-License-Identifier: Apache-2.0
"""What a description says that is possible and odd: mostly other units, or a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from multipanda_py.limits import ArmLimits
from multipanda_py.robots.chain import Chain

USUAL = {
    "velocity": ("rad/s", (0.05, 50.0), (0.005, 20.0)),
    "torque": ("Nm", (0.05, 3000.0), (1.0, 50_000.0)),
}
"""Of joints that turn, and of those that slide; wide enough for any arm of the market."""
MASS, SIZE = (1e-3, 150.0), (1e-3, 1.0)
"""Of a link that moves [kg], and radius of gyration [m]."""
TURNS = 4.0 * np.pi + 1e-3
"""Farthest position of a joint that has limits: more is mostly said in degrees [rad]."""
GRAVITY = 9.81


def doubts(path: Path, chain: Chain, limits: ArmLimits) -> Iterator[str]:
    r"""Yield a sentence for everything odd: path, what was got, what is usual.

    A link's radius of gyration is :math:`\sqrt{\operatorname{tr} I / 2 m}`; the torque of a joint
    that turns has to carry what hangs on it, at least where that is stretched out,
    :math:`\tau \ge g \sum m_j \ell_j` with half of the way from the joint.

    Args:
        path: Of the description.
        chain: The arm in it.
        limits: Of its joints, whoever gave them.
    """
    for link, body in zip(chain.links[1:], chain.bodies[1:]):
        where = f"{path}: link {link}"
        if not MASS[0] <= body.mass <= MASS[1]:
            yield f"{where}: got {body.mass:g} kg, usual {MASS[0]:g} to {MASS[1]:g} kg"
        size = float(np.sqrt(np.trace(body.inertia) / 2.0 / body.mass))
        if not SIZE[0] <= size <= SIZE[1]:
            yield (
                f"{where}: got an inertia as of its mass {size:.3g} m from its centre, usual "
                f"{SIZE[0]:g} to {SIZE[1]:g} m: kg m^2?"
            )
    for i, joint in enumerate(chain.joints):
        where, slides = f"{path}: joint {joint.name}", bool(limits.slides[i])
        for name, (unit, turning, sliding) in USUAL.items():
            got, (low, high) = float(getattr(limits, name)[i]), sliding if slides else turning
            unit = limits.unit(i, unit)
            if not low <= got <= high:
                yield f"{where}: {name}: got {got:g} {unit}, usual {low:g} to {high:g} {unit}"
        farthest = max(abs(limits.lower[i]), abs(limits.upper[i]))
        if not slides and TURNS < farthest < np.inf:
            yield f"{where}: got limits of {farthest:g} rad, usual up to {TURNS:.4g} rad: degrees?"
    yield from _too_weak(path, chain, limits)


def _too_weak(path: Path, chain: Chain, limits: ArmLimits) -> Iterator[str]:
    """Yield the joints that could not carry the arm behind them, half stretched out."""
    steps = [float(np.linalg.norm(origin[:3, 3])) for origin in chain.origins]
    for i, joint in enumerate(chain.joints):
        away = np.cumsum([0.0, *steps[i + 1 :]])
        masses = np.array([body.mass for body in chain.bodies[i + 1 :]])
        need, got = 0.5 * GRAVITY * float(masses @ away), float(limits.torque[i])
        if i > 0 and not limits.slides[i] and need > got:  # the first mostly turns upright
            yield (
                f"{path}: joint {joint.name}: torque: got {got:g} Nm, usual more than the "
                f"{need:.3g} Nm that the arm behind it weighs half stretched out"
            )
