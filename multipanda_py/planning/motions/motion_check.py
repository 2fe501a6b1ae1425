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
    """Pair of solids that are close to each other.

    Attributes:
        names: Names of both bodies in one text, for messages.
        distance: Distance of their surfaces; negative if they overlap [m].
        gradient: Gradient of the distance with respect to the joints of all arms, (n,) [m/rad].
        may_touch: True if the request allows the pair to touch.
    """

    names: str
    distance: float
    gradient: Vector
    may_touch: bool


class Avoidance(Protocol):
    """Interface for the collision avoidance of the controllets that will execute a motion.

    With it, the planner uses the same geometry and the same thresholds as the controllets.
    """

    @property
    def begins_at(self) -> float:
        """Distance below which at least one controllet pushes bodies apart [m]."""

    @property
    def stops_at(self) -> float:
        """Distance at which at least one controllet stops an approach [m]; 0 without a stop."""

    @property
    def free_distance(self) -> float:
        """Largest value of :meth:`min_distance` for any two bodies [m]."""

    def min_distance(self, first: str, second: str, gripper: bool) -> float:
        """Return the distance that a path must keep between two bodies [m]; 0 without a minimum.

        Args:
            first: Name of an arm or object.
            second: Name of an arm or object. May be the same arm.
            gripper: True for pairs with a gripper or its object, False for pairs of links.
        """

    def may_touch(self, first: str, second: str) -> bool:
        """Return True if the cell file allows contact between two bodies."""

    def close_pairs(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs of bodies closer than a distance in a configuration.

        Args:
            q: Joint configuration of all arms, (n,) [rad].
            within: Distance of surfaces below which a pair is returned [m].
        """

    def velocity_scale(self, q: Vector, dq: Vector) -> float:
        """Return the fraction of joint velocities, 0 to 1, that the controllets allow.

        Args:
            q: Joint positions of all arms, (n,) [rad].
            dq: Joint velocities of all arms, (n,) [rad/s].
        """

    def blocked_by(self, q: Vector, dq: Vector) -> str:
        """Describe the pairs of bodies that limit the velocities most, with their distances.

        Args:
            q: Joint positions of all arms, (n,) [rad].
            dq: Joint velocities of all arms, (n,) [rad/s].
        """


SAMPLES_PER_SEGMENT = 10
"""Number of samples per segment, for the maximum velocities and accelerations."""
MIN_DURATION = 0.2
"""Minimum duration of a motion [s]."""


def timed(fractions: Vector, path: Matrix, velocity: Vector, acceleration: Vector) -> Matrix:
    r"""Return trajectory points of a path from rest to rest, in minimum time within the limits.

    .. math:: T = \max_{i,s} \left( \frac{|q_i'(s)|}{\dot q_{max,i}},\
        \sqrt{\frac{|q_i''(s)|}{\ddot q_{max,i}}} \right).

    T is the duration, and :math:`q_i(s)` the position of joint i at its fraction s, on quintic
    segments. The limits of velocity and acceleration are :math:`\dot q_{max,i}` and
    :math:`\ddot q_{max,i}`.

    Args:
        fractions: Time fraction of every point, increasing from 0 to 1, (p,).
        path: Positions of m joints, (p, m) [rad].
        velocity: Velocity limits, (m,) [rad/s].
        acceleration: Acceleration limits, (m,) [rad/s^2].

    Returns:
        Trajectory points, (p, 1 + 3 m): time [s], positions, velocities and accelerations.
    """
    rows = complete(fractions, path)
    steps = np.diff(fractions)[:, None] * np.arange(SAMPLES_PER_SEGMENT) / SAMPLES_PER_SEGMENT
    _, rate, curvature = evaluate(rows, (fractions[:-1, None] + steps).ravel()).transpose(1, 0, 2)
    fastest = float((np.abs(rate) / velocity).max())
    sharpest = math.sqrt(float((np.abs(curvature) / acceleration).max()))
    duration = max(fastest, sharpest, MIN_DURATION)
    m = path.shape[1]
    rows[:, 0] *= duration
    rows[:, 1 + m : 1 + 2 * m] /= duration
    rows[:, 1 + 2 * m :] /= duration**2
    return rows


SLOWDOWN_TIME = 0.5
"""Width of the moving window that smooths a speed reduction [s]."""


def slowed(rows: Matrix, times: Vector, speed_fractions: Vector, max_points: int) -> Matrix:
    r"""Return trajectory points of the same path at a reduced speed.

    .. math:: q(t) = p(\tau(t)), \quad \dot\tau = r, \quad \dot q = r p', \quad
        \ddot q = r^2 p'' + r r' p'.

    Here q is the slowed trajectory, p the original one, and :math:`\tau` the time of p. Primes are
    derivatives with respect to :math:`\tau`. The smooth speed fraction r never exceeds
    ``speed_fractions``.

    Args:
        rows: Trajectory points of m joints, as returned by :func:`timed`, (p, 1 + 3 m).
        times: Evenly spaced times over the motion, (k,) [s].
        speed_fractions: Allowed fractions of the speed at these times, 0 to 1, (k,).
        max_points: Maximum number of points.
    """
    half = max(1, round(0.5 * SLOWDOWN_TIME / (times[1] - times[0])))
    min_value = _sliding_windows(speed_fractions, half).min(axis=1)
    rate = _sliding_windows(min_value, half).mean(axis=1)
    clock = np.concatenate([[0.0], np.cumsum(np.diff(times) * 2.0 / (rate[1:] + rate[:-1]))])
    knots = rows[:, 0]
    if 2 * len(rows) - 1 <= max_points:
        knots = np.sort(np.concatenate([knots, 0.5 * (knots[1:] + knots[:-1])]))
    q, dq, ddq = evaluate(rows, knots).transpose(1, 0, 2)
    r = np.interp(knots, times, rate)[:, None]
    change = np.interp(knots, times, np.gradient(rate, times))[:, None]
    result: Matrix = np.column_stack(
        [np.interp(knots, times, clock), q, r * dq, r * r * ddq + r * change * dq]
    )
    return result


def _sliding_windows(values: Vector, half_width: int) -> Matrix:
    padded = np.pad(values, half_width, mode="edge")
    return sliding_window_view(padded, 2 * half_width + 1)


CHECK_STEP = 0.01
"""Maximum step between checked configurations: in time [s], or in the position of the fastest
joint [rad, m]. The step that needs fewer configurations applies."""
BETWEEN_FRACTION = 0.5
"""Fraction of the clearance that suffices between the points of a path."""
BETWEEN_TOLERANCE = 5e-4
"""Tolerance that is also subtracted from distances between the points of a path [m]."""
MIN_SPEED_FRACTION, MIN_PLANNED_FRACTION = 0.05, 0.9
"""Fractions of the speed that the collision avoidance allows along a motion. Below the first one,
the motion is rejected. Below the second one, it is slowed down and checked again."""
MAX_SLOWDOWNS = 3
"""Maximum number of times that a motion is slowed down before it is rejected."""
# Factor that reduces a speed slightly below the allowed one, so that the next check accepts it.
_REDUCTION_FACTOR = 0.95


class Checked(NamedTuple):
    """Result of :func:`check_motion`.

    Attributes:
        rows: Trajectory points of the motion, slowed down if necessary, (p, 1 + 3 m): time, then
            positions, velocities and accelerations. The m variables are the joint positions of all
            arms, then the poses of movable objects.
        nearest: Minimum distance of bodies during the motion [m]; infinite if not tested.
        reason: Reason why the motion cannot be executed; empty if it can.
    """

    rows: Matrix
    nearest: float
    reason: str


def check_motion(
    rows: Matrix, n: int, space: FreeSpace | None, avoidance: Avoidance | None, max_points: int
) -> Checked:
    """Check the distances along a motion, and slow it down where collision avoidance would.

    Args:
        rows: Trajectory points, (p, 1 + 3 m). The m variables are the joint positions of all arms,
            then the poses of movable objects.
        n: Number of joints of all arms.
        space: Test of the required distances; None for no test.
        avoidance: Collision avoidance of the executing controllets; None if they have none.
        max_points: Maximum number of trajectory points of a slowed motion.
    """
    nearest = math.inf
    if space is not None:
        spared = space.sparing(BETWEEN_FRACTION, BETWEEN_TOLERANCE)
        for q in _sample_evenly(rows, n)[1][:, 0]:
            if result := spared.too_near(q):
                (first, second), distance = result
                names = " and ".join(dict.fromkeys((first, second)))
                return Checked(rows, distance, f"{names} would be as close as {distance:.4f} m")
            nearest = min(nearest, spared.nearest(q))
    if avoidance is None or avoidance.stops_at <= 0.0:
        return Checked(rows, nearest, "")
    for _ in range(MAX_SLOWDOWNS):
        times, path = _sample_evenly(rows, n)
        fractions = np.ones(len(times))
        for number, (q, dq, _) in enumerate(path):
            fractions[number] = scale = avoidance.velocity_scale(q, dq)
            if scale < MIN_SPEED_FRACTION:
                return Checked(rows, nearest, _stopped(avoidance, q, dq))
        if fractions.min() >= MIN_PLANNED_FRACTION:
            return Checked(rows, nearest, "")
        slowest = int(fractions.argmin())
        rows = slowed(rows, times, np.minimum(1.0, _REDUCTION_FACTOR * fractions), max_points)
    return Checked(rows, nearest, _stopped(avoidance, *path[slowest, :2]))


def _stopped(avoidance: Avoidance, q: Vector, dq: Vector) -> str:
    return (
        f"{avoidance.blocked_by(q, dq)} and approach: the executing collision_avoidance stops "
        f"them at "
        f"{avoidance.stops_at:.4f} m (parameters distance, stop_distance, fixed_objects)"
    )


def _sample_evenly(rows: Matrix, n_joints: int) -> tuple[Vector, Matrix]:
    """Return times, (k,) [s], and joint positions, velocities and accelerations, (k, 3, n)."""
    duration = float(rows[-1, 0])
    path_length = float(np.abs(np.diff(rows[:, 1 : 1 + n_joints], axis=0)).max(axis=1).sum())
    count = max(2, math.ceil(min(duration, path_length) / CHECK_STEP))
    times = np.linspace(0.0, duration, count + 1)
    return times, evaluate(rows, times)[:, :, :n_joints]
