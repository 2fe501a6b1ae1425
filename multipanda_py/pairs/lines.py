# SPDX-License-Identifier: Apache-2.0
"""Straight moves of the tool through random points of one plane of the base."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError, ValidationRefused
from multipanda_py.pairs.motions import INSIDE, REST, PairMotion
from multipanda_py.planning.quintic import rest_to_rest
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector
from multipanda_py.validation.posture import posture_at, tool_in_world

PLANES = ((0, 2), (0, 1), (1, 2))
"""Axes of the base that span xz, xy and yz, in turns."""
LONGEST, WAYPOINTS = 0.15, 3
"""Largest part of a leg along an axis [m], and legs of a move."""
_PER_LEG, _LINE_TRIES, _JUMP, _SHARE = 24, 40, 0.3, 0.5


def linear_motion(
    cell: CellConfig, arm: str, number: int, seed: int, missing: Callable[[Matrix], float]
) -> PairMotion:
    """Return a move of the tool along straight lines, at rest at each waypoint.

    It begins near the ready posture and keeps the tool's orientation. Depends on the seed and
    number only.

    Args:
        cell: Whose arm it is.
        arm: Its name.
        number: Of the move; the plane takes turns.
        seed: Of the data set.
        missing: Returns by how much the nearest of postures (N, n) is too near [m].

    Raises:
        ConfigurationError: If no move is found that is reached and clear.
    """
    described = describe_arm(arm, cell.arms[arm])
    limits, ready = described.limits, np.array(described.robot.ready)
    rng = np.random.default_rng([seed, 3, number])
    speed = rng.uniform(0.1, _SHARE)
    plane = list(PLANES[number % len(PLANES)])
    lower, upper = limits.span
    for _ in range(_LINE_TRIES):
        begin = np.clip(ready + rng.uniform(-0.2, 0.2, len(ready)), lower + INSIDE, upper - INSIDE)
        tool = tool_in_world(described, begin)
        legs, position, q, clear = [], tool.position, begin, True
        for _ in range(WAYPOINTS):
            step = np.zeros(3)
            step[plane] = rng.uniform(-LONGEST, LONGEST, 2)
            ahead = position + described.rotation_base_in_world @ step
            try:
                leg = _leg(described, q, position, ahead, tool.rotation)
            except ValidationRefused:
                clear = False
                break
            legs.append(leg)
            position, q = ahead, leg[-1]
        if clear and missing(np.concatenate(legs)) <= 0.0:
            return PairMotion(
                "linear", number, tuple(range(len(ready))),
                _timed(begin, legs, speed, limits.velocity, limits.acceleration),
            )  # fmt: skip
    raise ConfigurationError(
        f"motion linear {number}: none of {_LINE_TRIES} moves along lines is reached and clear"
    )


def _leg(
    described: ArmDescription, q: Vector, begin: Vector, end: Vector, rotation: Matrix
) -> Matrix:
    found = [q]
    for share in _blend()[1:]:
        pose = Pose(begin + share * (end - begin), rotation)
        q = posture_at(described, pose, found[-1], "a line")
        if np.abs(q - found[-1]).max() > _JUMP:
            raise ValidationRefused("a line: the posture jumps")
        found.append(q)
    return np.array(found)


def _blend() -> Vector:
    """Return the quintic from 0 to 1 at equal times, (k,)."""
    return rest_to_rest(np.linspace(0.0, 1.0, _PER_LEG + 1))


def _timed(
    begin: Vector, legs: list[Matrix], speed: float, velocity: Vector, acceleration: Vector
) -> Matrix:
    """Return points at times such that joints keep a share of their limits."""
    n, rows, now = len(begin), [np.zeros(1 + 3 * len(begin))], REST
    rows[0][1 : 1 + n] = begin
    for leg in legs:
        rate = np.gradient(leg, 1.0 / _PER_LEG, axis=0, edge_order=2)
        rate[[0, -1]] = 0.0
        curve = np.gradient(rate, 1.0 / _PER_LEG, axis=0, edge_order=2)
        curve[[0, -1]] = 0.0
        duration = max(
            float((np.abs(rate) / velocity).max()) / speed,
            float(np.sqrt((np.abs(curve) / acceleration).max())) / speed,
            0.3,
        )
        times = now + duration * np.linspace(0.0, 1.0, _PER_LEG + 1)
        first = 0 if len(rows) == 1 else 1
        for k in range(first, _PER_LEG + 1):
            parts = [leg[k], rate[k] / duration, curve[k] / duration**2]
            rows.append(np.concatenate([[times[k]], *parts]))
        now = float(times[-1])
    return np.array(rows)
