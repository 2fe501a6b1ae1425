# SPDX-License-Identifier: Apache-2.0
"""User trajectories: completion, thinning, checks between points, and braking distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import TargetRejected
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.state import ArmLimits, Matrix, Vector


def can_stop(
    q: Vector,
    dq: Vector,
    ddq: Vector,
    lower: Vector,
    upper: Vector,
    braking_acceleration: Vector,
    jerk: Vector,
) -> NDArray[np.bool_]:
    r"""Return a mask of the joints that have enough distance to brake, (n,).

    The required distance is at most d, with :math:`v = |\dot q| + \ddot q^2 / 2j`,

    .. math:: d = v \left( \frac{|\ddot q|}{j} + \frac{v}{2 a} + \frac{a}{2 j} \right)

    Args:
        q: Positions, (n,) [rad].
        dq: Velocities, (n,) [rad/s].
        ddq: Accelerations, (n,) [rad/s^2].
        lower: Lower position limits, (n,) [rad].
        upper: Upper position limits, (n,) [rad].
        braking_acceleration: Braking accelerations a, (n,) [rad/s^2].
        jerk: Braking jerks j, (n,) [rad/s^3].
    """
    change = np.abs(ddq)
    rate = np.abs(dq) + change * change / (2.0 * jerk)
    braking_distance = rate * (
        change / jerk + rate / (2.0 * braking_acceleration) + braking_acceleration / (2.0 * jerk)
    )
    up, down = upper - q, q - lower
    ahead = np.where(dq > 0.0, up, down)
    rotations = (dq * ddq < 0.0) | (dq == 0.0)
    ahead = np.where(rotations, np.minimum(up, down), ahead)
    return np.asarray((braking_distance <= ahead) | (rate < 1e-6))


def max_stoppable_velocity(
    distance: Vector, braking_acceleration: Vector, period: float
) -> Vector:
    r"""Return the maximum velocities from which joints can stop within a distance, (n,) [rad/s].

    .. math:: v(d) = a \left( \sqrt{T^2 + 2 d / a} - T \right)

    At this velocity, one more cycle of duration T and then braking with a take the distance d.

    Args:
        distance: Distances d to stop within, (n,) [rad]. Negative values count as zero.
        braking_acceleration: Braking accelerations a, (n,) [rad/s^2].
        period: Cycle time, T [s].
    """
    reach = np.sqrt(period * period + 2.0 * np.maximum(distance, 0.0) / braking_acceleration)
    return np.asarray(braking_acceleration * (reach - period))


BLEND_TIME = 0.1
"""Minimum time to blend from the measured configuration to a trajectory [s]. A first point before
this time should be near that configuration."""
VELOCITY_MARGIN = 1.05
"""Factor by which a velocity between points may exceed its limit. Points themselves may not."""
ACCELERATION_MARGIN = 2.0
"""Factor by which an acceleration may exceed its limit, at points too. Sampled trajectories often
have accelerations at points that the path does not have."""
_SAMPLES = 16  # Number of checked samples per segment.


def complete(
    times: ArrayLike, q: ArrayLike, dq: ArrayLike | None = None, ddq: ArrayLike | None = None
) -> Matrix:
    """Return the points of a trajectory; compute velocities and accelerations if missing.

    Computed velocities are limited central differences (van Leer, J. Computational Physics 1977),
    with rest at both ends. With them, the path stays between the positions of successive points.
    Computed accelerations are the smaller of those of the cubic segments before and after a
    point, and zero at both ends and where their signs differ.

    Args:
        times: Increasing times, (n,) [s].
        q: Positions of m joints, (n, m) [rad].
        dq: Velocities, (n, m) [rad/s]; None if missing.
        ddq: Accelerations, (n, m) [rad/s^2]; None if missing.

    Returns:
        Trajectory points, (n, 1 + 3 m): time, positions, velocities, accelerations.
    """
    t, p = np.asarray(times, dtype=np.float64), np.asarray(q, dtype=np.float64)
    step = np.diff(t)[:, None]
    rise = np.diff(p, axis=0)
    v = _slopes(step, rise) if dq is None else np.asarray(dq, dtype=np.float64)
    a = _curvatures(step, rise, v) if ddq is None else np.asarray(ddq, dtype=np.float64)
    return np.column_stack([t, p, v, a])


def _slopes(step: Matrix, rise: Matrix) -> Matrix:
    slope = rise / step
    before, after = slope[:-1], slope[1:]
    v = np.zeros((len(step) + 1, rise.shape[1]))
    central = (before * step[1:] + after * step[:-1]) / (step[1:] + step[:-1])
    max_value = 2.0 * np.minimum(np.abs(before), np.abs(after))
    v[1:-1] = np.where(before * after > 0.0, np.clip(central, -max_value, max_value), 0.0)
    return v


def _curvatures(step: Matrix, rise: Matrix, v: Matrix) -> Matrix:
    a = np.zeros_like(v)
    at_start = (6.0 * rise - (4.0 * v[:-1] + 2.0 * v[1:]) * step) / step**2
    at_end = (-6.0 * rise + (2.0 * v[:-1] + 4.0 * v[1:]) * step) / step**2
    before, after = at_end[:-1], at_start[1:]
    smaller = np.where(np.abs(before) < np.abs(after), before, after)
    a[1:-1] = np.where(before * after > 0.0, smaller, 0.0)
    return a


def thin(rows: Matrix, max_points: int, pieces: int = 1) -> tuple[Matrix, Vector]:
    """Remove points evenly until a maximum number remains.

    Args:
        rows: Trajectory points, (n, 1 + 3 m).
        max_points: Maximum number of remaining points, more than ``pieces``.
        pieces: Number of equal parts of the trajectory whose ends must remain.

    Returns:
        Remaining points, and the maximum distance of the new path from the removed points, (m,),
        in the unit of each joint.
    """
    if len(rows) <= max_points:
        return rows, np.zeros((rows.shape[1] - 1) // 3)
    each, of_each = (len(rows) - 1) // pieces, (max_points - 1) // pieces
    inside = np.linspace(0, each, of_each + 1).round()[:-1]
    stay = np.append(np.add.outer(each * np.arange(pieces), inside), len(rows) - 1).astype(int)
    selected = rows[stay]
    path = evaluate(selected, rows[:, 0])[:, 0]
    missed = path - rows[:, 1 : 1 + path.shape[1]]
    result: Vector = np.abs(missed).max(axis=0)
    return selected, result


def check_between(rows: Matrix, name: str, limits: ArmLimits) -> None:
    """Raise an error if a path exceeds the limits between its points.

    Args:
        rows: Trajectory points, (n, 1 + 3 m).
        name: Name of the arm.
        limits: Joint limits of the arm.

    Raises:
        TargetRejected: If a limit is exceeded. The message contains the joint, the time and the
            allowed range.
    """
    if len(rows) < 2:
        return
    fraction = np.arange(_SAMPLES) / _SAMPLES
    times = np.append(
        (rows[:-1, :1] + np.diff(rows[:, 0])[:, None] * fraction).ravel(), rows[-1, 0]
    )
    path = evaluate(rows, times)
    lower = np.minimum(limits.lower, path[0, 0]) - 1e-9  # An arm outside its limits may return.
    upper = np.maximum(limits.upper, path[0, 0]) + 1e-9
    for order, quantity, unit, low, high in (
        (0, "position", "rad", lower, upper),
        (1, "velocity", "rad/s", *_both(limits.velocity * VELOCITY_MARGIN)),
        (2, "acceleration", "rad/s^2", *_both(limits.acceleration * ACCELERATION_MARGIN)),
    ):
        values = path[:, order]
        outside = np.argwhere((values < low) | (values > high))
        if len(outside):
            at, joint = outside[0]
            got = f"{values[at, joint]:.3f} {limits.unit(joint, unit)}"
            raise TargetRejected(
                f"joint {joint + 1} of {name}: trajectory has {quantity} {got} at "
                f"{times[at]:.3f} s, "
                f"allowed [{low[joint]:.4g}, {high[joint]:.4g}]"
            )


def _both(bound: Vector) -> tuple[Vector, Vector]:
    return -bound, bound
