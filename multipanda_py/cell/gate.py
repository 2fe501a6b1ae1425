# SPDX-License-Identifier: Apache-2.0
"""The frames that targets may be given in."""

from __future__ import annotations

from collections.abc import Mapping

from multipanda_py.channel import HERE
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world, describe_arms
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose


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
