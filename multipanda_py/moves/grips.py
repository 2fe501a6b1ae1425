# SPDX-License-Identifier: Apache-2.0
"""How things are in hands when a motion begins, and so all the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from multipanda_py.moves.known_places import frames_at
from multipanda_py.optimiser.scene import Scene
from multipanda_py.pose import Pose


class Grip(NamedTuple):
    """One hand on one thing.

    Attributes:
        arm: Whose hand.
        thing: What is in it.
        pose: Of the thing in the tool.
    """

    arm: str
    thing: str
    pose: Pose


def grips_of(scene: Scene, held: Mapping[str, str]) -> list[Grip]:
    """Return how things are held, by arm; more than one hand may hold one."""
    found = []
    for arm, thing in held.items():
        tool = frames_at(scene, arm, scene.posture(scene.start, arm))["tool"]
        into = Pose(tool.translation.copy(), tool.rotation.copy()).inverse()
        found.append(Grip(arm, thing, into @ scene.pose(scene.start, thing)))
    return found


def in_one_hand(grips: Sequence[Grip]) -> dict[str, tuple[str, Pose]]:
    """Return things that one hand holds, with its tool: where they are follows from the arm.

    What two hold has numbers of its own, and both grips to meet.
    """
    hands = Counter(grip.thing for grip in grips)
    return {
        grip.thing: (f"{grip.arm}/tool", grip.pose) for grip in grips if hands[grip.thing] == 1
    }
