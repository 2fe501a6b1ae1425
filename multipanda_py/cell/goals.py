# SPDX-License-Identifier: Apache-2.0
"""Frames of targets, and checks of motion goals (poses or joint configurations)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world, describe_arms
from multipanda_py.exceptions import PlanRejected, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.state import Vector
from multipanda_py.targets import IDENTITY_POSE


class Frames:
    """Names and poses of the frames in which targets may be given.

    They are ``world`` and the base of every arm, named after its first link (``left_fr3_link0``).
    In a target of the arm ``left``, the names ``base``, ``fr3_link0`` and "" also stand for its
    base.
    """

    def __init__(self, config: CellConfig) -> None:
        bases = bases_in_world(config)
        self._base_frame = {arm.name: arm.base_frame for arm in describe_arms(config)}
        self._pose_in_world: Mapping[str, Pose] = {
            "world": Pose.identity(),
            **{self._base_frame[name]: pose for name, pose in bases.items()},
        }
        self._own = {
            arm: {"", base}.union({"base", base.removeprefix(f"{arm}_")} - {*self._pose_in_world})
            for arm, base in self._base_frame.items()
        }

    def base_of(self, arm: str) -> str:
        """Return the name of the base frame of an arm."""
        return self._base_frame[arm]

    def base_from(self, frame: str, arm: str) -> Pose:
        """Return the pose of a frame in the base of an arm.

        Raises:
            TargetRejected: If the frame is unknown.
        """
        base = self._base_frame[arm]
        if frame in self._own[arm]:
            return IDENTITY_POSE
        if frame not in self._pose_in_world:
            known = ", ".join((*self._pose_in_world, "base"))
            raise TargetRejected(f"{arm}: frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[base].inverse() @ self._pose_in_world[frame]

    def world_from(self, frame: str) -> Pose:
        """Return the pose of a frame in the world; the empty name means the world.

        Raises:
            TargetRejected: If the frame is unknown.
        """
        if frame == "":
            return Pose.identity()
        if frame not in self._pose_in_world:
            known = ", ".join(self._pose_in_world)
            raise TargetRejected(f"frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[frame]


MotionGoal: TypeAlias = Pose | ArrayLike


class GoalConverter:
    """Check motion goals and convert their poses to the world frame."""

    def __init__(self, names: CellNames) -> None:
        self._names, self._frames = names, Frames(names.config)

    def waypoints(self, via: Any, goals: Any, frame: str) -> list[dict[str, Pose | Vector]]:
        """Return waypoints and final goals in order, with poses in the world.

        Args:
            via: List of waypoints. Each maps names of arms to poses or joint configurations.
            goals: Final goal of each arm, by arm: a pose or a joint configuration.
            frame: Frame of the poses; the base of each arm by default.

        Raises:
            PlanRejected: If ``via`` or ``goals`` has a wrong format, length or number.
            UnknownName: If an arm is unknown.
            TargetRejected: If the frame is unknown.
        """
        if isinstance(via, (str, Mapping, Pose)) or not isinstance(via, Sequence):
            raise PlanRejected(f"via: got {via!r:.40}, allowed a list of goals by arm")
        values = [(f"via, goal {number}", stop) for number, stop in enumerate(via, 1)]
        stops = []
        for path, stop in (*values, ("goals", goals)):
            if not isinstance(stop, Mapping):
                raise PlanRejected(f"{path}: got {stop!r:.40}, allowed goals by arm")
            if not stop:
                raise PlanRejected(f"{path}: got none, allowed a goal for one arm or more")
            stops.append(self._in_world(stop, frame, "" if stop is goals else f"{path}: "))
        return stops

    def _in_world(
        self, goals: Mapping[str, MotionGoal], frame: str, path: str
    ) -> dict[str, Pose | Vector]:
        bases, result = bases_in_world(self._names.config), dict[str, Pose | Vector]()
        for arm, goal in goals.items():
            limits = self._names.limits(arm)
            if isinstance(goal, Pose):
                result[arm] = bases[arm] @ self._frames.base_from(frame, arm) @ goal
            else:
                result[arm] = _checked_configuration(goal, limits.n_joints, f"{path}{arm}")
        return result


def _checked_configuration(positions: ArrayLike, n: int, location: str) -> Vector:
    try:
        configuration = np.asarray(positions)
    except ValueError:  # NumPy rejects nested lists of different lengths.
        configuration = np.asarray(None)
    if configuration.dtype.kind not in "iuf":
        raise PlanRejected(
            f"{location}: got {positions!r:.60}, allowed a pose or {n} joint positions"
        )
    if configuration.shape != (n,):
        raise PlanRejected(
            f"{location}: got an array of shape {configuration.shape}, allowed {n} joint positions"
        )
    for joint, position in enumerate(configuration.tolist(), 1):
        if not math.isfinite(position):
            raise PlanRejected(
                f"{location}: joint {joint}: got {position}, allowed a finite number"
            )
    # astype() makes a copy, because the caller may change the original.
    return configuration.astype(np.float64)


def goals_by_arm(
    arm: str | Mapping[str, MotionGoal],
    goal: MotionGoal | None,
    via: Sequence[MotionGoal | Mapping[str, MotionGoal]],
) -> tuple[Mapping[str, MotionGoal], list[Mapping[str, MotionGoal]]]:
    """Convert the arguments of :meth:`.Cell.move_to` to goals and waypoints by arm.

    Args:
        arm: Name of the arm, or goals by arm.
        goal: Goal of the named arm; None if ``arm`` has the goals.
        via: Waypoints in order, each in the format of ``goal`` or a mapping by arm.

    Raises:
        PlanRejected: If the arguments do not fit together.
    """
    if isinstance(arm, str) == (goal is None):
        raise PlanRejected(
            "move_to: got arguments that do not fit together. Pass either the name of an arm and "
            "its goal, or a mapping of goals by arm and no other goal"
        )
    if isinstance(via, (str, Mapping, Pose)) or not isinstance(via, Sequence):
        raise PlanRejected(f"via: got {via!r:.40}, allowed a list of goals")
    goals: Mapping[str, MotionGoal] = arm if not isinstance(arm, str) else {arm: goal}  # type: ignore
    stops = []
    for location in via:
        if not isinstance(location, Mapping) and not isinstance(arm, str):
            raise PlanRejected(
                "via: got a goal without an arm, allowed {arm: goal}, as for the final goals"
            )
        stops.append(location if isinstance(location, Mapping) else {str(arm): location})
    return goals, stops
