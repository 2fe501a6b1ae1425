# SPDX-License-Identifier: Apache-2.0
"""A motion of one arm's joints through postures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.limits import ArmLimits
from multipanda_py.moves.timing import timed
from multipanda_py.state import Matrix

DENSE = 0.4
"""Least share of the largest distance that one between two postures counts as."""


def via_postures(
    postures: Sequence[ArrayLike], limits: ArmLimits, *, speed: float = 0.5
) -> Matrix:
    """Return a trajectory through postures, without a stop at those on the way.

    Between two postures every joint stays between its two positions. Nothing here knows of what
    is in the way: :meth:`.Cell.plan` does, and takes postures on the way, too.

    Args:
        postures: (n,) each [rad, m]; the first is where the arm is.
        limits: Of its joints.
        speed: Share of their velocities, above 0 to 1; of accelerations its square.

    Returns:
        Points as :meth:`.Cell.follow` takes them, (p, 1 + 3 n), in the shortest time that the
        limits allow for the course of the motion.

    Raises:
        PlanRejected: If it is no motion of this arm, or leaves its limits.

    Thread: any.
    """
    n = limits.n_joints
    try:
        path = np.array([np.asarray(q, dtype=np.float64) for q in postures])
    except ValueError:  # of different lengths
        path = np.zeros(0)
    if path.ndim != 2 or len(path) < 2 or path.shape[1] != n or not np.isfinite(path).all():
        raise PlanRejected(f"postures: got {postures!r:.200}, allowed 2 or more of {n} numbers")
    if not 0.0 < speed <= 1.0:
        raise PlanRejected(f"speed: got {speed!r}, allowed above 0 to 1")
    lower, upper = np.minimum(limits.lower, path[0]), np.maximum(limits.upper, path[0])
    outside = np.argwhere((path < lower) | (path > upper))
    if len(outside):
        number, joint = outside[0]
        raise PlanRejected(
            f"posture {number}: joint {joint + 1}: got {path[number, joint]:.4f} "
            f"{limits.unit(joint)}, allowed [{lower[joint]:.4f}, {upper[joint]:.4f}]"
        )
    steps = (np.abs(np.diff(path, axis=0)) / limits.velocity).max(axis=1)
    if not steps.any():
        raise PlanRejected("postures: all are the same, allowed a motion")
    # The speeds of a short step between long ones would slow down the whole motion.
    steps = np.maximum(steps, DENSE * steps.max())
    shares = np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])
    shares[-1] = 1.0
    return timed(shares, path, speed * limits.velocity, speed**2 * limits.acceleration)
