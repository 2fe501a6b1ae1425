# SPDX-License-Identifier: Apache-2.0
"""Retreat of arms that start too near to something for the collision avoidance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from multipanda_py.moves.avoidance import Avoidance, NearBodies
from multipanda_py.state import Matrix, Vector

STEP = 1.5e-3
"""Increase of the smallest distances per step [m]."""
AROUND = 0.01
"""Distance beyond the target up to which pairs are constrained to stay beyond it [m]."""
DEEPEST = 0.03
"""Maximum overlap at the start of a retreat, of capsules, which are larger than links [m]."""
LARGEST = 0.05
"""Largest step of a joint [rad, m]; a pair that needs more cannot be parted by the arm."""
MOST = 60
"""Maximum number of steps."""
_SWEEPS, _SOFT, _MET = 200, 1e-6, 0.5
_ROUNDING = 1e-7


def retreat(
    avoidance: Avoidance,
    start: Vector,
    may_move: Callable[[Vector], Matrix],
    lower: Vector,
    upper: Vector,
    target: float,
) -> Matrix:
    r"""Return configurations along which near pairs part, up to a distance that is free.

    Every step is the shortest that increases all distances below the target,

    .. math:: \min \|s\|^2 \quad \text{s.t.} \quad g_j^T s \ge \min(\Delta, d_{free} - d_j)

    and that leaves no other pair nearer than the target.

    Args:
        avoidance: Distance measure of the executing controllets.
        start: Configuration of all arms, (n,) [rad, m].
        may_move: Function that returns the projection on the allowed motions, (n, n).
        lower: Lower joint limits, (n,).
        upper: Upper joint limits, (n,).
        target: Distance that is free [m].

    Returns:
        Configurations from the start on, (k, n); the start alone if nothing is near or the arms
        cannot part.
    """
    path, q = [start], start
    for _ in range(MOST):
        allowed = may_move(q)
        pairs = [
            (pair, gradient)
            for pair in avoidance.near(q, target + AROUND)
            if not pair.may_touch and np.abs(gradient := allowed @ pair.gradient).max() > _ROUNDING
        ]
        if all(pair.distance >= target for pair, _ in pairs):
            break
        step = _step(pairs, target, lower - q, upper - q)
        if step is None:
            break
        q = q + step
        path.append(q)
    return np.array(path)


def _step(
    pairs: Sequence[tuple[NearBodies, Vector]], target: float, lowest: Vector, highest: Vector
) -> Vector | None:
    """Return the shortest step that parts all pairs, or None if there is none."""
    gradients = np.array([gradient for _, gradient in pairs])
    missing = np.array([target - pair.distance for pair, _ in pairs])
    needs = np.where(missing > 0.0, np.minimum(missing + 1e-4, STEP), missing)
    least, most = (
        np.maximum(-LARGEST, np.minimum(lowest, 0.0)),
        np.minimum(LARGEST, np.maximum(highest, 0.0)),
    )
    squares = (gradients * gradients).sum(axis=1) + _SOFT
    forces, step = np.zeros(len(pairs)), np.zeros(gradients.shape[1])
    for _ in range(_SWEEPS):  # Hildreth: the dual problem, one constraint after another
        largest = 0.0
        for row, gradient in enumerate(gradients):
            raised = max(forces[row] + (needs[row] - gradient @ step) / squares[row], 0.0)
            change = raised - forces[row]
            if change:
                forces[row] = raised
                step = gradients.T @ forces
                np.clip(step, least, most, out=step)
                largest = max(largest, abs(change) * float(np.abs(gradient).max()))
        if largest < 1e-6:
            break
    gained = gradients @ step
    is_parting = gained[missing > 0.0] >= _MET * needs[missing > 0.0]
    is_kept = gained[missing <= 0.0] >= needs[missing <= 0.0] - 1e-4
    return step if is_parting.all() and is_kept.all() else None
