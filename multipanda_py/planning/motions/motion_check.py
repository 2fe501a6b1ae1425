# SPDX-License-Identifier: Apache-2.0
"""Check of a timed motion: distances, and the collision avoidance of the controllets."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multipanda_py.planning.optimiser.free_space import FreeSpace
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.planning.trajectory.trajectory import complete
from multipanda_py.state import Matrix, Vector


class NearBodies(NamedTuple):
    """Pair of solids that are near each other.

    Attributes:
        names: Names of both.
        distance: Distance of their surfaces; negative if they overlap [m].
        gradient: Gradient of the distance with respect to the joints of all arms, (n,) [m/rad].
        may_touch: Flag of a pair that the request names as touching.
    """

    names: str
    distance: float
    gradient: Vector
    may_touch: bool


class Avoidance(Protocol):
    """Distance measure of the controllets that execute a motion.

    Controllets and planner then judge a motion by the same geometry and the same thresholds.
    """

    @property
    def begins_at(self) -> float:
        """Largest distance from which an executing controllet pushes bodies apart [m]."""

    @property
    def stops_at(self) -> float:
        """Largest distance at which a controllet stops an approach [m]; 0 if none does."""

    @property
    def passes_at(self) -> float:
        """Largest distance that paths need so that no controllet stops them [m]."""

    def needs(self, first: str, second: str, gripper: bool) -> float:
        """Return the distance that paths need between two bodies [m]; 0 if none is kept.

        Args:
            first: Name of an arm or object.
            second: Name of an arm or object; may be the same arm.
            gripper: Flag of pairs with a gripper or its object; otherwise pairs of links.
        """

    def may_touch(self, first: str, second: str) -> bool:
        """Return whether the cell file allows two bodies to touch."""

    def near(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs nearer than a distance [m] in a configuration of all arms, (n,)."""

    def pace(self, q: Vector, dq: Vector) -> float:
        """Return the allowed fraction of the velocities of all arms, (n,) [rad/s]."""

    def in_the_way(self, q: Vector, dq: Vector) -> str:
        """Return the names and the distance of the pair that limits these velocities most."""


SAMPLES = 10
"""Between two points, for velocities and accelerations."""
SHORTEST = 0.2
"""Of a motion [s]."""


def timed(shares: Vector, path: Matrix, velocity: Vector, acceleration: Vector) -> Matrix:
    r"""Return a path as points in the shortest time that keeps limits, from rest to rest.

    .. math:: T = \max_{i,s} \left( \frac{|q_i'(s)|}{\dot q_{max,i}},\
        \sqrt{\frac{|q_i''(s)|}{\ddot q_{max,i}}} \right)

    over the quintics between points at shares s of the time: the course of the speed is that of
    the path, which was found with small accelerations, and only its scale is chosen.

    Args:
        shares: Of the time at every point, growing from 0 to 1, (p,).
        path: Positions of m joints, (p, m).
        velocity: Largest ones, (m,).
        acceleration: Largest ones, (m,).

    Returns:
        Points, (p, 1 + 3 m).
    """
    rows = complete(shares, path)
    steps = np.diff(shares)[:, None] * np.arange(SAMPLES) / SAMPLES
    _, rate, curvature = evaluate(rows, (shares[:-1, None] + steps).ravel()).transpose(1, 0, 2)
    fastest = float((np.abs(rate) / velocity).max())
    sharpest = math.sqrt(float((np.abs(curvature) / acceleration).max()))
    duration = max(fastest, sharpest, SHORTEST)
    m = path.shape[1]
    rows[:, 0] *= duration
    rows[:, 1 + m : 1 + 2 * m] /= duration
    rows[:, 1 + 2 * m :] /= duration**2
    return rows


WINDOW = 0.5
"""Time over which the speed falls and rises again [s]."""


def slowed(rows: Matrix, times: Vector, shares: Vector, most: int) -> Matrix:
    r"""Return points of the same path at a reduced speed.

    .. math:: q(t) = p(\tau(t)), \quad \dot\tau = r, \quad \dot q = r p', \quad
        \ddot q = r^2 p'' + r r' p'

    with r the moving average of the moving minimum of the shares, so that r is smooth and
    nowhere above them.

    Args:
        rows: Points, (p, 1 + 3 m).
        times: Times of the shares, evenly spaced over the motion, (k,) [s].
        shares: Allowed fractions of the speed at these times, 0 to 1, (k,).
        most: Maximum number of points.
    """
    half = max(1, round(0.5 * WINDOW / (times[1] - times[0])))
    least = _windows(shares, half).min(axis=1)
    rate = _windows(least, half).mean(axis=1)
    clock = np.concatenate([[0.0], np.cumsum(np.diff(times) * 2.0 / (rate[1:] + rate[:-1]))])
    knots = rows[:, 0]
    if 2 * len(rows) - 1 <= most:
        knots = np.sort(np.concatenate([knots, 0.5 * (knots[1:] + knots[:-1])]))
    q, dq, ddq = evaluate(rows, knots).transpose(1, 0, 2)
    r = np.interp(knots, times, rate)[:, None]
    change = np.interp(knots, times, np.gradient(rate, times))[:, None]
    found: Matrix = np.column_stack(
        [np.interp(knots, times, clock), q, r * dq, r * r * ddq + r * change * dq]
    )
    return found


def _windows(values: Vector, half: int) -> Matrix:
    """Return the windows around all values, (k, 2 half + 1)."""
    padded = np.pad(values, half, mode="edge")
    return sliding_window_view(padded, 2 * half + 1)


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
