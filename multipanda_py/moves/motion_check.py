# SPDX-License-Identifier: Apache-2.0
"""Check of a timed motion between its points: distances, and the law that will execute it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from multipanda_py.moves.avoidance import Avoidance
from multipanda_py.moves.slowing import slowed
from multipanda_py.optimiser.free_space import FreeSpace
from multipanda_py.planning.quintic import evaluate
from multipanda_py.state import Matrix, Vector

DENSE = 0.01
"""Step between checked postures [s]; or in the fastest joint, where it is slow [rad, m]."""
SPARED = 0.5
"""Share of a clearance that may be used up between the points of a path."""
LEAST = 5e-4
"""What may be used up in any case [m]."""
SLOWEST, ENOUGH = 0.05, 0.9
"""Smallest share of its speed that a motion is slowed down to for the avoidance; and the smallest
that the law then may still take."""
ROUNDS = 3
"""How often a motion is slowed down."""
_BELOW = 0.95


class Checked(NamedTuple):
    """Result of a check.

    Attributes:
        rows: Points, slowed down where the law would have, (p, 1 + 3 m).
        nearest: Smallest distance of bodies [m].
        reason: Why the motion is not to be executed; empty if it may.
    """

    rows: Matrix
    nearest: float
    reason: str


def check_motion(
    rows: Matrix, n: int, space: FreeSpace | None, law: Avoidance | None, most: int
) -> Checked:
    """Check that a motion keeps its distances, and that the law lets it pass unhindered.

    Args:
        rows: Points, (p, 1 + 3 m).
        n: Number of joints of all arms, the first of the m columns.
        space: Distances that the postures keep.
        law: Collision avoidance of the executing controllets.
        most: Maximum number of points.
    """
    nearest = math.inf
    if space is not None:
        spared = space.sparing(SPARED, LEAST)
        for q in _sampled(rows, n)[1][:, 0]:
            if found := spared.too_near(q):
                (first, second), distance = found
                names = " and ".join(dict.fromkeys((first, second)))
                return Checked(rows, distance, f"{names} come as near as {distance:.4f} m")
            nearest = min(nearest, spared.nearest(q))
    if law is None or law.stops_at <= 0.0:
        return Checked(rows, nearest, "")
    for _ in range(ROUNDS):
        times, path = _sampled(rows, n)
        shares = np.ones(len(times))
        for number, (q, dq, _) in enumerate(path):
            shares[number] = share = law.pace(q, dq)
            if share < SLOWEST:
                return Checked(rows, nearest, _stopped(law, q, dq))
        if shares.min() >= ENOUGH:
            return Checked(rows, nearest, "")
        slowest = int(shares.argmin())
        rows = slowed(rows, times, np.minimum(1.0, _BELOW * shares), most)
    return Checked(rows, nearest, _stopped(law, *path[slowest, :2]))


def _stopped(law: Avoidance, q: Vector, dq: Vector) -> str:
    return (
        f"{law.in_the_way(q, dq)} and approach: collision_avoidance of the executing law stops "
        f"them at {law.stops_at:.4f} m (distance, stop_distance, fixed_objects)"
    )


def _sampled(rows: Matrix, n: int) -> tuple[Vector, Matrix]:
    """Return times, (k,), and positions, velocities, accelerations of the arms, (k, 3, n)."""
    duration = float(rows[-1, 0])
    way = float(np.abs(np.diff(rows[:, 1 : 1 + n], axis=0)).max(axis=1).sum())
    count = max(2, math.ceil(min(duration, way) / DENSE))
    times = np.linspace(0.0, duration, count + 1)
    return times, evaluate(rows, times)[:, :, :n]
