# SPDX-License-Identifier: Apache-2.0
"""Selection of the bodies that keep a distance from each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.term import Objective


def clearances(
    scene: Scene, goals: Iterable[Objective] = (), margin: float = 0.01
) -> list[Distance]:
    """Return distance constraints of every arm from itself, other arms and objects.

    A goal that relates an arm to an object allows contact between them, for example a tool placed
    on a box, or a box placed in a gripper.

    Args:
        scene: Arms and objects.
        goals: Goals of the problem.
        margin: Minimum distance [m].

    Raises:
        UnknownName: If the scene lacks a frame of a goal.
    """
    related = {frozenset(scene.body(frame) for frame in goal.frames) for goal in goals}
    pairs = [
        *((arm, arm) for arm in scene.arms),
        *combinations(scene.arms, 2),
        *(pair for pair in product(scene.arms, scene.things) if frozenset(pair) not in related),
    ]
    clearances = (Distance(scene, *pair, margin=margin) for pair in pairs)
    return [distance for distance in clearances if distance.pairs]
