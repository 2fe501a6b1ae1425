# SPDX-License-Identifier: Apache-2.0
"""Ways of a tool through space, from rest to rest: straight through poses, or on a circle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.motion_check import timed
from multipanda_py.planning.trajectory.quintic import PEAK_CURVATURE, PEAK_RATE, rest_to_rest
from multipanda_py.pose import Pose
from multipanda_py.state import ArmLimits, Matrix

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


SHORTEST = 0.05
"""Of a piece of a way [s]."""
TINY = 1e-6


@dataclass(frozen=True)
class ToolPace:
    """How fast a tool goes at most.

    Attributes:
        speed: Of its origin [m/s].
        turn_speed: Of its orientation [rad/s].
        acceleration: Of its origin, along the way and across it, each [m/s^2].
        turn_acceleration: Of its orientation [rad/s^2].

    Raises:
        PlanRejected: If one is not positive.
    """

    speed: float = 0.2
    turn_speed: float = 0.8
    acceleration: float = 1.0
    turn_acceleration: float = 4.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 < value < math.inf:
                raise PlanRejected(f"{name}: got {value!r}, allowed a number above 0")

    def duration(self, distance: float, angle: float, radius: float = math.inf) -> float:
        r"""Return the shortest time of a piece that begins and ends at rest [s].

        .. math:: T = \max\left(\tfrac{15}{8} \tfrac{d}{v},\
            \sqrt{\tfrac{10}{\sqrt 3} \tfrac{d}{a}}\right)

        for distance and angle alike; on a circle v is at most :math:`\sqrt{a r}`.

        Args:
            distance: Along the way [m].
            angle: Of the orientation [rad].
            radius: Of the way [m].
        """
        speed = min(self.speed, math.sqrt(self.acceleration * radius))
        return max(
            PEAK_RATE * distance / speed,
            PEAK_RATE * angle / self.turn_speed,
            math.sqrt(PEAK_CURVATURE * distance / self.acceleration),
            math.sqrt(PEAK_CURVATURE * angle / self.turn_acceleration),
            SHORTEST,
        )


class _Piece(NamedTuple):
    duration: float
    at: Callable[[float], Pose]


class PosePath:
    r"""Where a tool is to be at a time, to be sent as targets of a law that follows poses.

    Every piece begins and ends at rest, as :func:`.rest_to_rest` does.

    Nothing here knows of joints or of what is in the way: :meth:`.Cell.plan` does.

    Thread: any.
    """

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = tuple(pieces)

    @classmethod
    def through(cls, poses: Sequence[Pose], pace: ToolPace | None = None) -> PosePath:
        """Return the way straight from pose to pose, with a stop at each.

        The origin goes along lines; the orientation turns about one axis between two poses.

        Args:
            poses: Of the tool in any one frame; the first is where it is.
            pace: At which it goes.

        Raises:
            PlanRejected: If there are fewer than two poses.
        """
        if len(poses) < 2:
            raise PlanRejected(f"poses: got {len(poses)}, allowed 2 or more, first where it is")
        pace = pace or ToolPace()
        return cls([_line(*pair, pace) for pair in itertools.pairwise(poses)])

    @classmethod
    def around(
        cls,
        start: Pose,
        centre: ArrayLike,
        axis: ArrayLike,
        angle: float = math.tau,
        *,
        turning: bool = False,
        pace: ToolPace | None = None,
    ) -> PosePath:
        """Return the way on a circle.

        Args:
            start: Of the tool, in any one frame.
            centre: Of the circle, in its frame, (3,) [m]; any point of its axis will do.
            axis: About which it goes, by the right hand, in its frame, (3,).
            angle: How far, a whole circle by default; below 0 the other way [rad].
            turning: Whether the tool turns along; else it keeps its orientation.
            pace: At which it goes.

        Raises:
            PlanRejected: If there is no such circle.
        """
        about, middle = np.array(axis, dtype=np.float64), np.array(centre, dtype=np.float64)
        if about.shape != (3,) or middle.shape != (3,):
            raise PlanRejected(f"centre, axis: got {middle}, {about}, allowed 3 numbers each")
        length = float(np.linalg.norm(about))
        if not (TINY < length < math.inf and np.isfinite(middle).all() and math.isfinite(angle)):
            raise PlanRejected(
                f"centre, axis, angle: got {middle}, {about}, {angle}, allowed finite numbers, "
                "and an axis that points somewhere"
            )
        about /= length
        arm = start.position - middle
        radius = float(np.linalg.norm(arm - about * (about @ arm)))
        if radius < TINY:
            raise PlanRejected("centre: got a point of the axis that goes through the tool")

        def at(share: float) -> Pose:
            turn = pin.exp3(about * (angle * share))
            rotation = turn @ start.rotation if turning else start.rotation
            return Pose(middle + turn @ arm, rotation)

        turned = abs(angle) if turning else 0.0
        duration = (pace or ToolPace()).duration(radius * abs(angle), turned, radius)
        return cls([_Piece(duration, at)])

    @property
    def duration(self) -> float:
        """Of the whole way [s]."""
        return sum(piece.duration for piece in self._pieces)

    def at(self, time: float) -> Pose:
        """Return the pose at a time since the start [s]; its ends before and after that."""
        for piece in self._pieces:
            if time < piece.duration:
                break
            time -= piece.duration
        else:
            return self._pieces[-1].at(1.0)
        s = max(time, 0.0) / piece.duration
        return piece.at(rest_to_rest(s))


def _line(begin: Pose, end: Pose, pace: ToolPace) -> _Piece:
    return _Piece(pace.duration(*begin.distance(end)), partial(begin.between, end))
