# SPDX-License-Identifier: Apache-2.0
"""Interface of the planner to the collision avoidance of the executing controllets."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from multipanda_py.state import Vector


class NearBodies(NamedTuple):
    """Pair of solids that are near each other.

    Attributes:
        names: Names of both.
        distance: Distance of their surfaces; negative if they overlap [m].
        gradient: Gradient of the distance with respect to the joints of all arms, (n,) [m/rad].
        may_touch: Flag of a pair that the request names as touching.
    """

    names: str
    distance: float
    gradient: Vector
    may_touch: bool


class Avoidance(Protocol):
    """Distance measure of the controllets that execute a motion.

    Controllets and planner then judge a motion by the same geometry and the same thresholds.
    """

    @property
    def begins_at(self) -> float:
        """Largest distance from which an executing controllet pushes bodies apart [m]."""

    @property
    def stops_at(self) -> float:
        """Largest distance at which a controllet stops an approach [m]; 0 if none does."""

    @property
    def passes_at(self) -> float:
        """Largest distance that paths need so that no controllet stops them [m]."""

    def needs(self, first: str, second: str, gripper: bool) -> float:
        """Return the distance that paths need between two bodies [m]; 0 if none is kept.

        Args:
            first: Name of an arm or object.
            second: Name of an arm or object; may be the same arm.
            gripper: Flag of pairs with a gripper or its object; otherwise pairs of links.
        """

    def may_touch(self, first: str, second: str) -> bool:
        """Return whether the cell file allows two bodies to touch."""

    def near(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs nearer than a distance [m] in a configuration of all arms, (n,)."""

    def pace(self, q: Vector, dq: Vector) -> float:
        """Return the allowed fraction of the velocities of all arms, (n,) [rad/s]."""

    def in_the_way(self, q: Vector, dq: Vector) -> str:
        """Return the names and the distance of the pair that limits these velocities most."""
