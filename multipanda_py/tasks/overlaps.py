# SPDX-License-Identifier: Apache-2.0
"""Overlaps of bodies on the planned path of a subtask."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product

import numpy as np

from multipanda_py.exceptions import TaskFailed
from multipanda_py.optimiser.clearances import clearances
from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.scene import Scene
from multipanda_py.state import Matrix

LINKS, OBJECTS = 5e-3, 5e-3
"""Maximum overlap of capsules, and of objects [m]. Capsules are larger than links. Objects may
rest on each other, or be pressed together."""
DEEPER = 5e-3
"""Maximum increase of an overlap that exists when the subtask begins [m]."""
PARTS = 4
"""Number of checked configurations from one slice to the next."""


def refuse_overlaps(scene: Scene, path: Matrix, touched: Collection[tuple[str, str]]) -> None:
    """Refuse a path on which bodies are within each other.

    Args:
        scene: Arms and objects at the start, with carried objects as movable.
        path: Slices after the start, (s, d).
        touched: Arms and the objects that their grippers are to touch.

    Raises:
        TaskFailed: With the bodies and the depth.
    """
    whole = np.concatenate([scene.start[None], path])
    share = np.arange(1, PARTS + 1)[:, None] / PARTS
    dense = (whole[:-1, None] + share * np.diff(whole, axis=0)[:, None]).reshape(-1, scene.size)
    every = np.concatenate([scene.start[None], dense])
    found = [one for one in _pairs(scene, touched) if one.pairs]
    frames = dict.fromkeys(name for one in found for name in one.frames)
    placed = Kinematics(scene, frames).place(every)
    for one in found:
        depths = one.evaluate(placed)[0].max(axis=1)
        allowed = OBJECTS if one.of[0] in scene.things else LINKS
        allowed = max(allowed, float(depths[0]) + DEEPER)
        deepest = int(depths.argmax())
        if depths[deepest] > allowed:
            first, second = one.of
            names = f"parts of {first}" if first == second else f"{first} and {second}"
            raise TaskFailed(
                f"{names} would be {depths[deepest]:.3f} m within each other "
                f"{_when(deepest, len(every))}, allowed {allowed:.3f} m"
            )


def _pairs(scene: Scene, touched: Collection[tuple[str, str]]) -> Iterator[Distance]:
    for one in clearances(scene, (), 0.0):
        is_touched = one.of in touched
        yield Distance(scene, *one.of, 0.0, "arm") if is_touched else one
    others = [thing for thing in scene.things if thing not in scene.movable]
    for thing, other in product(scene.movable, others):
        yield Distance(scene, thing, other, 0.0)


def _when(number: int, count: int) -> str:
    if number == 0:
        return "at its start"
    return "at its end" if number == count - 1 else "on its way"
