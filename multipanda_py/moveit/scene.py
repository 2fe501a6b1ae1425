# SPDX-License-Identifier: Apache-2.0
"""The things of a cell as MoveIt's text format for scenes has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots.scene_object import SceneObject

HEADER = "(noname)+"
"""What MoveIt calls a scene without a name; some readers insist on it."""
FLOOR = "floor"
FLOOR_SIZE, FLOOR_TOP = (20.0, 20.0, 0.1), -0.005
"""Edges of the floor, and how far below it begins, so that bases that stand on it do not touch
it for good [m]."""
_NO_COLOR = (0.0, 0.0, 0.0, 0.0)
_PLACE = "0 0 0\n0 0 0 1"


def scene_text(things: Sequence[SceneObject], floor: float) -> str:
    """Return the ``.scene`` file of things and the floor, in the frame ``world``.

    Sizes become MoveIt's: edges of a box, radius of a sphere, radius and length of a cylinder.
    A capsule is a cylinder with a sphere at each end: one thing of three shapes.

    Args:
        things: Of the cell.
        floor: Height of its floor [m].
    """
    center = floor + FLOOR_TOP - FLOOR_SIZE[2] / 2.0
    parts = [HEADER]
    if all(thing.name != FLOOR for thing in things):
        parts += [f"* {FLOOR}", f"0 0 {center:.9g}\n0 0 0 1"]
        parts += _shapes([("box", FLOOR_SIZE, _PLACE)], _NO_COLOR)
    for thing in things:
        quaternion = quaternion_from_rotation(thing.rotation)
        parts += [f"* {thing.name}", _numbers(thing.position.tolist()), _numbers(quaternion)]
        parts += _shapes(_solids(thing), thing.rgba)
    return "\n".join([*parts, ".", ""])


def _shapes(
    solids: Sequence[tuple[str, Sequence[float], str]], color: Sequence[float]
) -> Iterator[str]:
    """Yield how many shapes, what each is and where in its thing, and that there are no frames."""
    yield str(len(solids))
    for kind, size, place in solids:
        yield from (kind, _numbers(size), place, _numbers(color))
    yield "0"


def _solids(thing: SceneObject) -> list[tuple[str, Sequence[float], str]]:
    """Return kind, size and place in the thing of each solid that it consists of."""
    if thing.shape == "box":
        return [("box", [2.0 * half for half in thing.size], _PLACE)]
    radius = thing.size[0]
    if thing.shape == "sphere":
        return [("sphere", [radius], _PLACE)]
    half = thing.size[1]
    ends = (half, -half) if thing.shape == "capsule" else ()
    spheres = [("sphere", [radius], f"0 0 {end:.9g}\n0 0 0 1") for end in ends]
    return [("cylinder", [radius, 2.0 * half], _PLACE), *spheres]


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.9g}" for value in values)
