# SPDX-License-Identifier: Apache-2.0
"""Which distances a motion keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.avoidance import Avoidance
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.optimiser import Distance, clearances
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solids import Parts

TOUCHING = 2e-3
"""How deep what rests on or in something may be in it at the start [m]."""
AROUND = 0.05
"""How deep what a hand touches may be in the capsules around it and its fingers [m]."""
PARTS: tuple[Parts, ...] = ("arm", "hand")


def kept_apart(
    scene: Scene,
    held: Mapping[str, str],
    request: MoveRequest,
    law: Avoidance | None = None,
    deepest: float = TOUCHING,
) -> list[Distance]:
    """Return the distances to be kept, smaller ones where bodies begin nearer.

    Args:
        scene: Arms and things at the start.
        held: Objects in grippers, by arm.
        request: Request for the motion.
        law: Collision avoidance of the executing controllets.
        deepest: Maximum overlap at the start [m].

    Raises:
        PlanRejected: If bodies are within each other at the start.
    """
    found = [one for one in _asked(scene, held, request, law) if one.pairs]
    frames = dict.fromkeys(name for one in found for name in one.frames)
    placed, kept = Kinematics(scene, frames).place(scene.start[None]), []
    for one in found:
        distance = one.margin - float(one.evaluate(placed)[0].max())
        if distance < min(-deepest, one.margin):
            raise PlanRejected(
                f"start: {' and '.join(dict.fromkeys(one.of))} are {-distance:.3f} m within each "
                "other, allowed apart"
            )
        nearer = distance - 1e-3 < one.margin
        kept.append(Distance(scene, *one.of, distance - 1e-3, one.parts) if nearer else one)
    return kept


def _asked(
    scene: Scene, held: Mapping[str, str], request: MoveRequest, law: Avoidance | None
) -> Iterator[Distance]:
    """Yield the distances that the request and the executing controllets need."""
    clearance = request.clearance
    led = {arm for places in request.stops for arm in places}
    for one in clearances(scene, (), clearance):
        arm, other = one.of  # the arm comes first
        if held.get(arm) == other and other in scene.movable:
            continue  # two grippers hold it, and it does not rotate in them
        for part in PARTS:
            need, meant = clearance, False
            if law is not None:
                need = max(clearance, law.needs(arm, other, part == "hand"))
                meant = law.may_touch(arm, other) or (
                    part == "hand" and law.may_touch(f"{arm}/hand", other)
                )
            if meant or (part == "hand" and arm in led and other in request.touching):
                need = -AROUND
            yield Distance(scene, arm, other, need, parts=part)
    others = [thing for thing in scene.things if thing not in held.values()]
    for thing, other in product(dict.fromkeys(held.values()), others):
        need = clearance if law is None else max(clearance, law.needs(thing, other, True))
        yield Distance(scene, thing, other, -TOUCHING if other in request.touching else need)
