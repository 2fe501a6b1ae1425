# SPDX-License-Identifier: Apache-2.0
"""Collision avoidance of the controllets that will execute a motion, as the planner needs it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from multipanda_py.state import Vector


class NearBodies(NamedTuple):
    """Two solids that are near each other.

    Attributes:
        names: Names of both.
        distance: Distance of their surfaces; negative if they overlap [m].
        gradient: Derivative of the distance by the joints of all arms, (n,) [m/rad].
        may_touch: Flag of a pair that the request names as touching.
    """

    names: str
    distance: float
    gradient: Vector
    may_touch: bool


class Avoidance(Protocol):
    """The distance measure of the law that executes a motion.

    The law and the planner then judge a motion by the same geometry and the same thresholds.
    """

    @property
    def begins_at(self) -> float:
        """Largest distance from which an executing controllet pushes bodies apart [m]."""

    @property
    def stops_at(self) -> float:
        """Largest distance at which one stops an approach [m]; 0 if none does."""

    @property
    def passes_at(self) -> float:
        """Largest distance at which paths are to pass for a controllet not to stop them [m]."""

    def needs(self, first: str, second: str, hand: bool) -> float:
        """Return the distance at which paths are to pass, 0 for what no law keeps apart [m].

        Args:
            first: Arm or object.
            second: Arm or object, or the same arm.
            hand: Flag of pairs with a gripper or what it holds; else of links alone.
        """

    def may_touch(self, first: str, second: str) -> bool:
        """Return whether the cell file says that two names are meant to touch."""

    def near(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs that are nearer than a distance [m] at postures of all arms, (n,)."""

    def pace(self, q: Vector, dq: Vector) -> float:
        """Return the share of the velocities of all arms, (n,) [rad/s], that the law allows."""

    def in_the_way(self, q: Vector, dq: Vector) -> str:
        """Return the pair that slows these velocities down most, and its distance."""
