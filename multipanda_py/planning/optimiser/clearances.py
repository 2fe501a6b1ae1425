# SPDX-License-Identifier: Apache-2.0
"""Which bodies are to keep apart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.term import Objective


def clearances(
    scene: Scene, goals: Iterable[Objective] = (), margin: float = 0.01
) -> list[Distance]:
    """Return the distances of every arm from itself, from other arms and from things.

    Arms may touch those things that a goal relates them to: a tool that is placed on a box, a box
    that is placed in a hand.

    Args:
        scene: With all of them.
        goals: What is asked.
        margin: Smallest distance [m].

    Raises:
        UnknownName: If a goal is about a frame that the scene does not have.
    """
    related = {frozenset(scene.body(frame) for frame in goal.frames) for goal in goals}
    pairs = [
        *((arm, arm) for arm in scene.arms),
        *combinations(scene.arms, 2),
        *(pair for pair in product(scene.arms, scene.things) if frozenset(pair) not in related),
    ]
    found = (Distance(scene, *pair, margin=margin) for pair in pairs)
    return [distance for distance in found if distance.pairs]
