# SPDX-License-Identifier: Apache-2.0
"""Places that arms are to go to, as they are given: poses, postures, goals by arm."""

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
from multipanda_py.targets import HERE


class Frames:
    """The frames that targets may be given in, by the cell's own geometry.

    Known are ``world`` and every arm's base, by the name of its first link
    (``left_fr3_link0``). An empty name is the base of the arm that is spoken to, and so are
    ``base`` and its name without the arm's (``fr3_link0``), as clients of one arm call it.
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
        """Return the name of an arm's base frame."""
        return self._base_frame[arm]

    def base_from(self, frame: str, arm: str) -> Pose:
        """Return the pose of ``frame`` in the base of ``arm``.

        Raises:
            TargetRejected: If the frame is unknown; lists the known ones.
        """
        base = self._base_frame[arm]
        if frame in self._own[arm]:
            return HERE
        if frame not in self._pose_in_world:
            known = ", ".join((*self._pose_in_world, "base"))
            raise TargetRejected(f"{arm}: frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[base].inverse() @ self._pose_in_world[frame]

    def world_from(self, frame: str) -> Pose:
        """Return the pose of ``frame`` in the world; an empty name is the world.

        Raises:
            TargetRejected: If the frame is unknown; lists the known ones.
        """
        if frame == "":
            return Pose.identity()
        if frame not in self._pose_in_world:
            known = ", ".join(self._pose_in_world)
            raise TargetRejected(f"frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[frame]


Place: TypeAlias = Pose | ArrayLike


class Places:
    """Check places, and say where they are in the world.

    Args:
        names: Of the cell's arms.
    """

    def __init__(self, names: CellNames) -> None:
        self._names, self._frames = names, Frames(names.config)

    def stops(self, via: Any, goals: Any, frame: str) -> list[dict[str, Pose | Vector]]:
        """Return places one after another, the goals last: poses in the world, or postures.

        Args:
            via: Places on the way, by arm.
            goals: By arm.
            frame: Of the poses; by default the base of each arm.

        Raises:
            PlanRejected: If they are something else, or a posture is none of the arm's.
            UnknownName: If there is no such arm.
            TargetRejected: If there is no such frame.
        """
        if isinstance(via, (str, Mapping, Pose)) or not isinstance(via, Sequence):
            raise PlanRejected(f"via: got {via!r:.40}, allowed a list of places by arm")
        given = [(f"via, place {number}", stop) for number, stop in enumerate(via, 1)]
        found = []
        for where, stop in (*given, ("goals", goals)):
            if not isinstance(stop, Mapping):
                raise PlanRejected(f"{where}: got {stop!r:.40}, allowed places by arm")
            if not stop:
                raise PlanRejected(f"{where}: got none, allowed a place for one arm or more")
            found.append(self._in_world(stop, frame, "" if stop is goals else f"{where}: "))
        return found

    def _in_world(
        self, places: Mapping[str, Place], frame: str, where: str
    ) -> dict[str, Pose | Vector]:
        bases, found = bases_in_world(self._names.config), dict[str, Pose | Vector]()
        for arm, place in places.items():
            limits = self._names.limits(arm)
            if isinstance(place, Pose):
                found[arm] = bases[arm] @ self._frames.base_from(frame, arm) @ place
            else:
                found[arm] = _posture(place, limits.n_joints, f"{where}{arm}")
        return found


def _posture(place: ArrayLike, n: int, where: str) -> Vector:
    """Return a posture of n joints.

    Raises:
        PlanRejected: With the joint.
    """
    try:
        posture = np.asarray(place)
    except ValueError:  # lists of different lengths
        posture = np.asarray(None)
    if posture.dtype.kind not in "iuf":
        raise PlanRejected(f"{where}: got {place!r:.60}, allowed a pose or {n} joint positions")
    if posture.shape != (n,):
        raise PlanRejected(
            f"{where}: got numbers of shape {posture.shape}, allowed {n} joint positions"
        )
    for joint, position in enumerate(posture.tolist(), 1):
        if not math.isfinite(position):
            raise PlanRejected(f"{where}: joint {joint}: got {position}, allowed a finite number")
    return posture.astype(np.float64)  # a copy: the caller may change his


def goals_by_arm(
    arm: str | Mapping[str, Place],
    goal: Place | None,
    via: Sequence[Place | Mapping[str, Place]],
) -> tuple[Mapping[str, Place], list[Mapping[str, Place]]]:
    """Return goals and places on the way by arm, of one arm or of several.

    Raises:
        PlanRejected: If it is neither the one nor the other.
    """
    if isinstance(arm, str) == (goal is None):
        raise PlanRejected("move_to: got an arm without a goal, or goals by arm and another one")
    if isinstance(via, (str, Mapping, Pose)) or not isinstance(via, Sequence):
        raise PlanRejected(f"via: got {via!r:.40}, allowed a list of places")
    goals: Mapping[str, Place] = arm if not isinstance(arm, str) else {arm: goal}  # type: ignore
    stops = []
    for place in via:
        if not isinstance(place, Mapping) and not isinstance(arm, str):
            raise PlanRejected("via: got a place, allowed places by arm, as the goals are")
        stops.append(place if isinstance(place, Mapping) else {str(arm): place})
    return goals, stops
