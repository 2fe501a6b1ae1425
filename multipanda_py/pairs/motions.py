# SPDX-License-Identifier: Apache-2.0
"""Random motions of joints that fill the workspace, alone and in all combinations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.limits import ArmLimits
from multipanda_py.planning.quintic import PEAK_CURVATURE, PEAK_RATE
from multipanda_py.state import Matrix, Vector

REST = 0.6
"""Time at rest before a motion begins [s]."""
INSIDE = 0.1
"""Distance from position limits [rad, m]."""
SLOWEST, FASTEST = 0.1, 0.6
"""Shares of the speed limits between which motions are drawn."""
_PEAK_JERK, _RISE = 60.0, 0.03
_MOTION_TRIES, _BETWEEN = 2000, 0.05


@dataclass(frozen=True, eq=False)
class PairMotion:
    """One motion of a data set.

    Attributes:
        kind: ``multi``, ``single`` or ``linear``.
        number: Within its kind, from 0.
        joints: Which are meant to move, from 0.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n), from rest to rest.
    """

    kind: str
    number: int
    joints: tuple[int, ...]
    points: Matrix

    @property
    def name(self) -> str:
        """Kind and number, as files are called."""
        return f"{self.kind}-{self.number:05d}"


def moving_together(n: int, number: int, kind: str, seed: int) -> tuple[int, ...]:
    """Return which joints the motion of a number moves.

    Single joints take turns. Combinations of two and more come in a random order, each once
    before any comes again: 2^n - n - 1 motions have them all.
    """
    if kind == "single" or n == 1:
        return (number % n,)
    all_of_them = [c for size in range(2, n + 1) for c in combinations(range(n), size)]
    order = np.random.default_rng([seed, 0]).permutation(len(all_of_them))
    return all_of_them[int(order[number % len(order)])]


def joint_motion(
    kind: str, number: int, seed: int, limits: ArmLimits, missing: Callable[[Matrix], float]
) -> PairMotion:
    r"""Return a random motion of joints between two postures, clear of everything.

    Postures are uniform within the limits; a quintic joins them, at a random share of the speed
    limits, with acceleration scaled by its square and jerk by its cube. It depends on the seed,
    kind and number only, not on what has been drawn before.

    Args:
        kind: ``multi`` or ``single``.
        number: Of the motion.
        seed: Of the data set.
        limits: Of the joints.
        missing: Returns by how much the nearest of postures (N, n) is too near [m].

    Raises:
        ConfigurationError: If no motion is found that is clear.
    """
    rng = np.random.default_rng([seed, 1 + (kind == "single"), number])
    joints = moving_together(limits.n_joints, number, kind, seed)
    lower, upper = limits.span
    lower, upper = lower + INSIDE, upper - INSIDE
    speed = rng.uniform(SLOWEST, FASTEST)
    for _ in range(_MOTION_TRIES):
        begin = rng.uniform(lower, upper)
        if missing(begin[None]) > 0.0:
            continue
        end = begin.copy()
        end[list(joints)] = rng.uniform(lower, upper)[list(joints)]
        count = 2 + int(np.abs(end - begin).max() / _BETWEEN)
        if missing(begin + np.linspace(0.0, 1.0, count)[:, None] * (end - begin)) <= 0.0:
            return PairMotion(kind, number, joints, _points(begin, end, speed, limits))
    raise ConfigurationError(
        f"motion {kind} {number}: none of {_MOTION_TRIES} random motions is clear of the arm and "
        "of things; allowed: more room, or a smaller --margin"
    )


def _points(begin: Vector, end: Vector, speed: float, limits: ArmLimits) -> Matrix:
    way = np.abs(end - begin)
    jerk = np.minimum(limits.jerk, limits.acceleration / _RISE)
    duration = max(
        float((PEAK_RATE * way / limits.velocity).max()),
        float(np.sqrt(PEAK_CURVATURE * way / limits.acceleration).max()),
        float(np.cbrt(_PEAK_JERK * way / jerk).max()),
    )
    points = np.zeros((3, 1 + 3 * len(begin)))
    points[:, 0] = 0.0, REST, REST + duration / speed
    points[:, 1 : 1 + len(begin)] = begin, begin, end
    return points
