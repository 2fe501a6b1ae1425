# SPDX-License-Identifier: Apache-2.0
"""A motion that has been found, and for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

NEAR = 0.03
"""How far a joint may be from where a plan begins [rad, m]: it blends the rest out on its way."""
STAYS = 1e-4
"""An arm none of whose joints moves by more stays where it is [rad, m]."""
MOVED, TURNED = 0.01, 0.05
"""How far a thing may have moved since it was planned around [m], [rad]."""


@dataclass(frozen=True, eq=False, repr=False)
class MovePlan:
    """Trajectories of arms that begin and end together.

    Attributes:
        points: By arm, as :meth:`.Cell.follow` takes them, (p, 1 + 3 n).
        duration: [s].
        starts: Where all arms stood, moved or not, by arm, (n,).
        things: Where things were, in the world.
        held: What hands held, by arm.
        nearest: How near bodies come to each other on the way, or were at its start [m].
        reason: How it was found.
        laws: Parameters of the executing controllets at that time, by controllet.
    """

    points: Mapping[str, Matrix]
    duration: float
    starts: Mapping[str, Vector]
    things: Mapping[str, Pose]
    held: Mapping[str, str]
    nearest: float
    reason: str
    laws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        arms = ", ".join(self.moving) or "no arm"
        return f"<MovePlan of {arms}, {self.duration:.2f} s, {self.nearest:.3f} m apart>"

    @property
    def moving(self) -> tuple[str, ...]:
        """Names of the arms that do not stay where they are."""
        return tuple(
            arm
            for arm, rows in self.points.items()
            if np.ptp(rows[:, 1 : 1 + (rows.shape[1] - 1) // 3], axis=0).max() > STAYS
        )

    def rows(self) -> Matrix:
        """Return the points of all arms together, (p, 1 + 3 m)."""
        points = [*self.points.values()]
        parts = [np.hsplit(rows[:, 1:], 3) for rows in points]
        found: Matrix = np.hstack(
            [points[0][:, :1], *(part[order] for order in range(3) for part in parts)]
        )
        return found

    def check(
        self,
        postures: Mapping[str, Vector],
        things: Mapping[str, Pose],
        held: Mapping[str, str],
    ) -> None:
        """Refuse to begin where arms or things are not as they were planned with.

        Args:
            postures: Of all arms now, by name, (n,).
            things: Where things are now.
            held: What hands hold now, by arm.

        Raises:
            PlanRejected: With what is elsewhere, by how much.
        """
        if {*postures} != {*self.starts}:
            raise PlanRejected(
                f"plan: got one for {', '.join(self.starts)}, allowed arms of this cell: "
                f"{', '.join(postures)}"
            )
        for arm, posture in postures.items():
            start = self.starts[arm]
            off = float(np.abs(posture - start).max()) if posture.shape == start.shape else np.inf
            if not off <= NEAR:
                raise PlanRejected(
                    f"plan: a joint of {arm} is {off:.3f} rad from where it was planned from, "
                    f"allowed {NEAR:g}; plan anew"
                )
        for arm in postures:
            before, now = self.held.get(arm), held.get(arm)
            if before != now:
                raise PlanRejected(
                    f"plan: {arm} holds {now or 'nothing'}, and it was planned with "
                    f"{before or 'nothing'} in its hand; plan anew"
                )
        if gone := sorted({*things} ^ {*self.things}):
            raise PlanRejected(f"plan: {', '.join(gone)} came or went since; plan anew")
        for name, pose in things.items():
            distance, angle = pose.distance(self.things[name])
            if distance > MOVED or angle > TURNED:
                raise PlanRejected(
                    f"plan: {name} is {distance:.3f} m and {angle:.2f} rad from where it was "
                    f"planned around, allowed {MOVED:g} m and {TURNED:g} rad; plan anew"
                )
