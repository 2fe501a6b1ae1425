# SPDX-License-Identifier: Apache-2.0
"""Trajectories through joint configurations, and tool paths along lines and circles."""

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

MIN_STEP_FRACTION = 0.4
"""Minimum time between two configurations, as a fraction of the longest such time."""


def via_configurations(
    configurations: Sequence[ArrayLike], limits: ArmLimits, *, speed: float = 0.5
) -> Matrix:
    """Return a trajectory through joint configurations without intermediate stops.

    Obstacles are ignored; :meth:`.Cell.plan` avoids them.

    Args:
        configurations: Joint configurations, (n,) each [rad, m]. The first is the present one.
        limits: Joint limits of the arm.
        speed: Fraction of the velocity limits, 0 < speed <= 1. Its square is the fraction of the
            acceleration limits.

    Returns:
        Trajectory points as for :meth:`.Cell.follow_trajectory`, (p, 1 + 3 n), with the minimum
        duration for this speed profile.

    Raises:
        PlanRejected: If the configurations do not fit the arm, are all equal, or exceed its
            limits.

    Thread: any.
    """
    n = limits.n_joints
    try:
        path = np.array([np.asarray(q, dtype=np.float64) for q in configurations])
    except ValueError:  # The configurations have different lengths.
        path = np.zeros(0)
    if path.ndim != 2 or len(path) < 2 or path.shape[1] != n or not np.isfinite(path).all():
        raise PlanRejected(
            f"configurations: got {configurations!r:.200}, allowed 2 or more of {n} numbers each"
        )
    if not 0.0 < speed <= 1.0:
        raise PlanRejected(f"speed: got {speed!r}, allowed 0 < speed <= 1")
    lower, upper = np.minimum(limits.lower, path[0]), np.maximum(limits.upper, path[0])
    outside = np.argwhere((path < lower) | (path > upper))
    if len(outside):
        number, joint = outside[0]
        raise PlanRejected(
            f"configuration {number}: joint {joint + 1}: got {path[number, joint]:.4f} "
            f"{limits.unit(joint)}, allowed [{lower[joint]:.4f}, {upper[joint]:.4f}]"
        )
    steps = (np.abs(np.diff(path, axis=0)) / limits.velocity).max(axis=1)
    if not steps.any():
        raise PlanRejected("configurations: all configurations are equal. Give different ones")
    # A very short step between long ones would need low speeds at both its ends. It is lengthened,
    # so that it does not slow down the whole motion.
    steps = np.maximum(steps, MIN_STEP_FRACTION * steps.max())
    fractions = np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])
    fractions[-1] = 1.0
    return timed(fractions, path, speed * limits.velocity, speed**2 * limits.acceleration)


MIN_SEGMENT_DURATION = 0.05
"""Minimum duration of a path segment [s]."""
TINY = 1e-6
"""Minimum length of a rotation axis and minimum radius of a circle [m]."""


@dataclass(frozen=True)
class ToolPace:
    """Speed and acceleration limits of a tool.

    Attributes:
        speed: Maximum speed of the origin of the tool frame [m/s].
        angular_speed: Maximum angular speed [rad/s].
        acceleration: Maximum acceleration of the origin of the tool frame, both along the path
            and perpendicular to it [m/s^2].
        angular_acceleration: Maximum angular acceleration [rad/s^2].

    Raises:
        PlanRejected: If a value is not positive.
    """

    speed: float = 0.2
    angular_speed: float = 0.8
    acceleration: float = 1.0
    angular_acceleration: float = 4.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 < value < math.inf:
                raise PlanRejected(f"{name}: got {value!r}, allowed a number above 0")

    def duration(self, distance: float, angle: float, radius: float = math.inf) -> float:
        r"""Return the minimum duration T of a segment from rest to rest [s].

        .. math:: T = \max\left(\tfrac{15}{8} \tfrac{d}{v},\
            \sqrt{\tfrac{10}{\sqrt 3} \tfrac{d}{a}}, 0.05 s\right)

        with distance d, maximum speed v and maximum acceleration a. The rotation has the same two
        bounds. On a circle of radius r, v is at most :math:`\sqrt{a r}`.

        Args:
            distance: Length of the segment [m].
            angle: Rotation angle of the segment [rad].
            radius: Radius of a circular segment [m]; infinite for a line.
        """
        speed = min(self.speed, math.sqrt(self.acceleration * radius))
        return max(
            PEAK_RATE * distance / speed,
            PEAK_RATE * angle / self.angular_speed,
            math.sqrt(PEAK_CURVATURE * distance / self.acceleration),
            math.sqrt(PEAK_CURVATURE * angle / self.angular_acceleration),
            MIN_SEGMENT_DURATION,
        )


class _Piece(NamedTuple):
    duration: float
    sample: Callable[[float], Pose]


class PosePath:
    """Tool poses as a function of time, to send as targets of a pose controllet.

    Every segment starts and ends at rest. Joint limits and obstacles are ignored;
    :meth:`.Cell.plan` considers both.

    Thread: any.
    """

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = tuple(pieces)

    @classmethod
    def through(cls, poses: Sequence[Pose], pace: ToolPace | None = None) -> PosePath:
        """Create a path along straight lines from pose to pose, with a stop at each.

        Between two poses, the orientation rotates about one axis.

        Args:
            poses: Tool poses in one common frame. The first is the present one.
            pace: Speed and acceleration limits.

        Raises:
            PlanRejected: If there are fewer than two poses.
        """
        if len(poses) < 2:
            raise PlanRejected(
                f"poses: got {len(poses)}, allowed 2 or more, beginning with the present pose"
            )
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
        rotate_tool: bool = False,
        pace: ToolPace | None = None,
    ) -> PosePath:
        """Create a path along a circle.

        Args:
            start: Start pose of the tool, in any frame.
            centre: Any point on the axis of the circle, in the same frame, (3,) [m].
            axis: Rotation axis with right-hand direction, in the same frame, (3,).
            angle: Angle of the arc [rad], a full circle by default. Negative for the opposite
                direction.
            rotate_tool: True to rotate the tool with the circle; False for a constant
                orientation.
            pace: Speed and acceleration limits.

        Raises:
            PlanRejected: If the axis has zero length or goes through the tool, or a number is not
                finite.
        """
        about, middle = np.array(axis, dtype=np.float64), np.array(centre, dtype=np.float64)
        if about.shape != (3,) or middle.shape != (3,):
            raise PlanRejected(f"centre, axis: got {middle}, {about}, allowed 3 numbers each")
        length = float(np.linalg.norm(about))
        if not (TINY < length < math.inf and np.isfinite(middle).all() and math.isfinite(angle)):
            raise PlanRejected(
                f"centre, axis, angle: got {middle}, {about}, {angle}, allowed finite numbers "
                "and an axis of non-zero length"
            )
        about /= length
        arm = start.position - middle
        radius = float(np.linalg.norm(arm - about * (about @ arm)))
        if radius < TINY:
            raise PlanRejected("centre: the axis goes through the tool. Move the centre")

        def at(fraction: float) -> Pose:
            rotation_step = pin.exp3(about * (angle * fraction))
            rotation = rotation_step @ start.rotation if rotate_tool else start.rotation
            return Pose(middle + rotation_step @ arm, rotation)

        turned = abs(angle) if rotate_tool else 0.0
        duration = (pace or ToolPace()).duration(radius * abs(angle), turned, radius)
        return cls([_Piece(duration, at)])

    @property
    def duration(self) -> float:
        """Duration of the whole path [s]."""
        return sum(piece.duration for piece in self._pieces)

    def at(self, time: float) -> Pose:
        """Return the pose at a time since the start [s], constant before and after the path."""
        for piece in self._pieces:
            if time < piece.duration:
                break
            time -= piece.duration
        else:
            return self._pieces[-1].sample(1.0)
        s = max(time, 0.0) / piece.duration
        return piece.sample(rest_to_rest(s))


def _line(start: Pose, end: Pose, pace: ToolPace) -> _Piece:
    return _Piece(pace.duration(*start.distance(end)), partial(start.interpolate, end))
