# SPDX-License-Identifier: Apache-2.0
"""Where arms and things are at a moment, measured or expected."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from multipanda_py.exceptions import TaskFailed
from multipanda_py.pose import Pose
from multipanda_py.state import Vector
from multipanda_py.tasks.contact_points import ContactPoint
from multipanda_py.tasks.sections import WORLD

TOOL = "/tool"
NEAR = 0.06
"""How far a joint may be from where a plan begins [rad]: it blends the rest out on its way."""
GRIP = 0.003
"""How far a tip may be, in what it presses on, from where a plan begins: it blends that out, too,
in one slice, and tears at the thing [m]."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Postures, tools and things.

    Attributes:
        postures: Joint positions by arm, (n,) each [rad, m].
        tools: Poses of the tools in the world, by arm.
        things: Poses of all things that are there in the world, by name.
        others: Joint positions of the arms that do not take part, by name [rad, m].
    """

    postures: dict[str, Vector]
    tools: dict[str, Pose]
    things: dict[str, Pose]
    others: dict[str, Vector] = field(default_factory=dict)

    def pose(self, frame: str) -> Pose:
        """Return the pose of ``world``, ``ARM/tool`` or a thing in the world.

        Raises:
            TaskFailed: If there is no such thing now.
        """
        if frame == WORLD:
            return Pose.identity()
        if frame.endswith(TOOL):
            return self.tools[frame.removesuffix(TOOL)]
        if frame not in self.things:
            raise TaskFailed(f"{frame} is not there; there are {', '.join(self.things) or 'none'}")
        return self.things[frame]

    def far_from(
        self,
        other: Seen,
        things: Collection[str],
        moved: float,
        pressed: Sequence[ContactPoint] = (),
    ) -> str:
        """Say what is elsewhere, beyond what a plan can begin with; empty if nothing is.

        Args:
            other: Where it was expected.
            things: Those that count.
            moved: How far they may be [m]; and turned, by as much over 10 cm.
            pressed: Where tips touch things that the plan is to carry.
        """
        for name in things:
            distance, angle = self.pose(name).distance(other.pose(name))
            if distance > moved or angle > 10.0 * moved:
                return f"{name} is {distance:.3f} m and {angle:.2f} rad from where it was expected"
        for arm, posture in self.postures.items():
            off = float(np.abs(posture - other.postures[arm]).max())
            if not math.isfinite(off) or off > NEAR:
                return f"a joint of {arm} is {off:.3f} rad from where it was expected"
        for point in pressed:
            off = float(np.linalg.norm(self.tip(point) - other.tip(point)))
            if off > GRIP:
                return f"the tip of {point.arm} is {off:.3f} m from where it was expected"
        return ""

    def tip(self, point: ContactPoint) -> Vector:
        """Return where the tip of a contact's arm is in its thing, (3,) [m]."""
        return (self.pose(point.thing).inverse() @ self.tools[point.arm]).position
