# SPDX-License-Identifier: Apache-2.0
"""Which bodies keep apart in a subtask, and how far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from multipanda_py.optimiser.between_slices import LEAST, SPARED
from multipanda_py.optimiser.clearances import clearances
from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.kinematics import Kinematics, Slices
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solids import Parts
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix

PARTS = 4
"""Of the way from one slice to the next, in which a path without distances is looked at."""
SPARE = 2e-3
"""What bodies that begin or are to end within each other may be deeper on their way [m]."""
AROUND = 0.05
"""How deep what a hand touches may be in the capsules around it and its fingers [m]."""

PARTS_OF_ARMS: tuple[Parts, ...] = ("arm", "hand")


@dataclass(frozen=True)
class Encounters:
    """What of a subtask brings bodies together.

    Attributes:
        touched: Arms and the things that their hands are to touch.
        placed: Where things that are carried are to be at the end, in the world.
        touching: Things that all hands may touch, and what they carry may rest on.
    """

    touched: Collection[tuple[str, str]]
    placed: Mapping[str, Pose]
    touching: Collection[str] = ()


def apart(scene: Scene, wanted: Encounters, clearance: float) -> list[Distance]:
    """Return the distances that a subtask keeps.

    Bodies that begin nearer to each other than the clearance, and carried things that are to end
    nearer to something, keep half of that distance. The links of an arm whose hand touches a
    thing are only not to be in it.

    Args:
        scene: Movable are the things that are carried, and no others.
        wanted: What comes together.
        clearance: Of all else [m].

    Thread: any.
    """
    found = [one for one in _pairs(scene, wanted, clearance) if one.pairs]
    ends = np.stack([scene.start, scene.configuration({}, wanted.placed)])
    frames = dict.fromkeys(name for one in found for name in one.frames)
    there = Kinematics(scene, frames).place(ends)
    return [kept for one in found for kept in _allowed(scene, one, there)]


def is_clear(distances: Collection[Distance], scene: Scene, path: Matrix) -> bool:
    """Return whether a path keeps its distances, as they are kept between slices, all the way."""
    frames = dict.fromkeys(name for one in distances for name in one.frames)
    if not frames:
        return True
    whole = np.concatenate([scene.start[None], path])
    share = np.arange(1, PARTS + 1)[:, None] / PARTS
    dense = (whole[:-1, None] + share * np.diff(whole, axis=0)[:, None]).reshape(-1, scene.size)
    placed = Kinematics(scene, frames).place(dense)
    return all(
        float(one.evaluate(placed)[0].max()) <= max(SPARED * one.margin, 0.0) + LEAST
        for one in distances
    )


def _pairs(scene: Scene, wanted: Encounters, clearance: float) -> Iterator[Distance]:
    for one in clearances(scene, (), clearance):
        arm, thing = one.of  # the arm comes first
        if (arm, thing) in wanted.touched or thing in wanted.touching:
            yield Distance(scene, arm, thing, 0.0, parts="arm")
            yield Distance(scene, arm, thing, -AROUND, parts="hand")
        else:
            yield one
    others = [thing for thing in scene.things if thing not in scene.movable]
    for thing, other in product(scene.movable, others):
        yield Distance(scene, thing, other, -AROUND if other in wanted.touching else clearance)


def _allowed(scene: Scene, one: Distance, there: Slices) -> Iterator[Distance]:
    """Yield a distance so that it holds at the start, and where carried things end."""
    # Where arms will be is not known yet; of things that is what the goals say.
    is_of_things = all(name in scene.things for name in one.of)
    values, _ = one.evaluate(there if is_of_things else there.part(slice(0, 1)))
    nearest = one.margin - float(values.max(initial=-np.inf))
    if nearest >= one.margin:
        yield one
    elif one.parts == "all" and one.of[0] in scene.arms and one.of[1] in scene.things:
        for part in PARTS_OF_ARMS:  # a hand that is near leaves the links their clearance
            yield from _allowed(scene, Distance(scene, *one.of, one.margin, part), there)
    else:
        least = 0.5 * nearest if nearest > 0.0 else nearest - SPARE
        yield Distance(scene, *one.of, least, one.parts)
