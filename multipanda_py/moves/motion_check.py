# SPDX-License-Identifier: Apache-2.0
"""Check of a timed motion: distances, and the collision avoidance of the controllets."""

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
"""Step between checked configurations [s]; of the fastest joint in slow motions [rad, m]."""
SPARED = 0.5
"""Fraction of a clearance by which a path may be nearer between its points."""
LEAST = 5e-4
"""Minimum of this difference [m]."""
SLOWEST, ENOUGH = 0.05, 0.9
"""Smallest fraction of its speed to which a motion is slowed down for the collision avoidance;
smallest fraction to which a controllet may slow it down further."""
ROUNDS = 3
"""Maximum number of times that a motion is slowed down."""
_BELOW = 0.95


class Checked(NamedTuple):
    """Result of a check.

    Attributes:
        rows: Points, slowed down where controllets would slow down, (p, 1 + 3 m).
        nearest: Smallest distance of bodies [m].
        reason: Reason why the motion cannot be executed; empty if it can.
    """

    rows: Matrix
    nearest: float
    reason: str


def check_motion(
    rows: Matrix, n: int, space: FreeSpace | None, law: Avoidance | None, most: int
) -> Checked:
    """Check that a motion keeps its distances, and that no controllet slows it down.

    Args:
        rows: Points, (p, 1 + 3 m).
        n: Number of joints of all arms, which are the first of the m columns.
        space: Distances that all configurations keep.
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
        f"{law.in_the_way(q, dq)} and approach: the executing collision_avoidance stops "
        f"them at {law.stops_at:.4f} m (distance, stop_distance, fixed_objects)"
    )


def _sampled(rows: Matrix, n: int) -> tuple[Vector, Matrix]:
    """Return times, (k,), and positions, velocities, accelerations of the arms, (k, 3, n)."""
    duration = float(rows[-1, 0])
    way = float(np.abs(np.diff(rows[:, 1 : 1 + n], axis=0)).max(axis=1).sum())
    count = max(2, math.ceil(min(duration, way) / DENSE))
    times = np.linspace(0.0, duration, count + 1)
    return times, evaluate(rows, times)[:, :, :n]
