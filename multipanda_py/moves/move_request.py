# SPDX-License-Identifier: Apache-2.0
"""What is asked of a motion, and what of that is nonsense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

from multipanda_py.exceptions import PlanRejected
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

Keep: TypeAlias = Literal["", "upright", "orientation"]
KEEPS: tuple[Keep, ...] = ("", "upright", "orientation")
"""What of a tool stays: nothing; what points up in it; how it is turned."""
NUMBERS = {"clearance": (0.0, 0.5), "speed": (0.01, 1.0), "patience": (0.01, 600.0)}
"""Least and largest of what are numbers."""
MOST_STOPS = 100
"""Maximum number of goals of one motion, the last one included, as it is one trajectory."""


@dataclass(frozen=True)
class MoveRequest:
    """What is asked of a motion.

    Attributes:
        stops: Places one after another, the goal last: by arm a pose of its tool in the world, or
            a posture, (n,). Arms that are not named may go out of the way.
        keep: See :data:`KEEPS`; of all arms that have a pose or posture to go to.
        clearance: Smallest distance of bodies [m]. By default that from which on
            ``collision_avoidance`` pushes. It is raised to the distance that the executing
            controllets need. Arms that start nearer retreat first. It is smaller for bodies from
            which they cannot retreat.
        speed: Share of the limits of velocity; of those of acceleration its square.
        patience: Longest search, in processor time of the thread that searches [s]: what else the
            machine does takes nothing from it.
        seed: Of it; the same one finds the same motion.
        touching: Things that hands of named arms may touch, as one that goes to grasp does, or
            has let go; and that what hands hold may rest on.
    """

    stops: Sequence[Mapping[str, Pose | Vector]]
    keep: Keep = ""
    clearance: float = 0.03
    speed: float = 0.3
    patience: float = 5.0
    seed: int = 0
    touching: Sequence[str] = ()

    def name_of(self, number: int) -> str:
        """Return what a place is called, by its number from 1."""
        return "goal" if number == len(self.stops) else f"via, place {number}"

    def check(self) -> None:
        """Refuse what is none.

        Raises:
            PlanRejected: With what was got, and what is allowed.
        """
        if not self.stops or not all(self.stops):
            raise PlanRejected("goals: got none, allowed a place for one arm or more")
        if len(self.stops) > MOST_STOPS:
            raise PlanRejected(
                f"via: got {len(self.stops) - 1} places, allowed up to {MOST_STOPS - 1}; plan "
                "several motions"
            )
        if not isinstance(self.keep, str) or self.keep not in KEEPS:
            allowed = ", ".join(repr(keep) for keep in KEEPS)
            raise PlanRejected(f"keep: got {self.keep!r:.40}, allowed {allowed}")
        _check_names(self.touching)
        for name, (low, high) in NUMBERS.items():
            value = getattr(self, name)
            if not (_is_a(Real, value) and low <= value <= high):
                raise PlanRejected(
                    f"{name}: got {value!r:.40}, allowed a number from {low:g} to {high:g}"
                )
        if not (_is_a(Integral, self.seed) and self.seed >= 0):
            raise PlanRejected(f"seed: got {self.seed!r:.40}, allowed a whole number from 0")


def request_of(
    stops: Sequence[Mapping[str, Pose | Vector]], options: Mapping[str, Any]
) -> MoveRequest:
    """Return the request for places with options by name.

    Raises:
        PlanRejected: If there is no such option, or its value is none; nothing was searched.
    """
    known = [field.name for field in fields(MoveRequest) if field.name != "stops"]
    if unknown := [name for name in options if name not in known]:
        raise PlanRejected(f"options: got {', '.join(unknown)}, allowed {', '.join(known)}")
    request = MoveRequest(stops, **options)
    request.check()
    return request


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_names(names: Any) -> None:
    is_list = isinstance(names, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(name, str) for name in names):
        raise PlanRejected(f"touching: got {names!r:.40}, allowed a list of names")
