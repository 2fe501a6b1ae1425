# SPDX-License-Identifier: Apache-2.0
"""Which distances a motion keeps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.optimiser import Distance, Scene, clearances
from multipanda_py.optimiser.kinematics import Kinematics

TOUCHING = 2e-3
"""How deep what rests on or in something may be in it at the start [m]."""
AROUND = 0.05
"""How deep what a hand touches may be in the capsules around it and its fingers [m]."""


def kept_apart(scene: Scene, held: Mapping[str, str], request: MoveRequest) -> list[Distance]:
    """Return the distances to be kept, smaller ones where bodies begin nearer.

    Raises:
        PlanRejected: If bodies are within each other at the start.
    """
    clearance = request.clearance
    others = [thing for thing in scene.things if thing not in held.values()]
    led = {arm for places in request.stops for arm in places}
    found = []
    for one in clearances(scene, (), clearance):
        arm, thing = one.of  # the arm comes first
        if held.get(arm) == thing:
            continue
        if arm in led and thing in request.touching:
            found.append(Distance(scene, arm, thing, clearance, parts="arm"))
            found.append(Distance(scene, arm, thing, -AROUND, parts="hand"))
        else:
            found.append(one)
    found += [
        Distance(scene, thing, other, -TOUCHING if other in request.touching else clearance)
        for thing, other in product(held.values(), others)
    ]
    found = [one for one in found if one.pairs]
    frames = dict.fromkeys(name for one in found for name in one.frames)
    placed, kept = Kinematics(scene, frames).place(scene.start[None]), []
    for one in found:
        distance = one.margin - float(one.evaluate(placed)[0].max())
        if distance < min(-TOUCHING, one.margin):
            raise PlanRejected(
                f"start: {' and '.join(dict.fromkeys(one.of))} are {-distance:.3f} m within each "
                "other, allowed apart"
            )
        nearer = distance - 1e-3 < one.margin
        kept.append(Distance(scene, *one.of, distance - 1e-3, one.parts) if nearer else one)
    return kept
