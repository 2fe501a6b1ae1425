# SPDX-License-Identifier: Apache-2.0
"""Capsules and pictures of the links of a chain."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.chain import Chain
from multipanda_py.robots.defaults import default_capsules
from multipanda_py.robots.extra import Extra
from multipanda_py.robots.shapes import Capsule, Turned, point_of

Vector = NDArray[np.float64]
S = TypeVar("S", Capsule, Turned)


def link_capsules(chain: Chain, extra: Extra, tip: Vector) -> list[tuple[Capsule, ...]]:
    """Return the capsules of every link, those of what is fixed to it among them."""
    given = extra.capsules(list(chain.places))
    given = default_capsules(chain, tip) if given is None else given
    found: list[tuple[Capsule, ...]] = [()] * len(chain.links)
    for link, shapes in given.items():
        number, pose = chain.places[link]
        found[number] += tuple(moved_solid(shape, pose) for shape in shapes)
    return found


def link_looks(chain: Chain, extra: Extra) -> list[tuple[Turned, ...]]:
    """Return the picture of every link, that of what is fixed to it among it."""
    found: list[tuple[Turned, ...]] = [()] * len(chain.links)
    for link, solids in extra.look(list(chain.places)).items():
        number, pose = chain.places[link]
        found[number] += tuple(moved_solid(solid, pose) for solid in solids)
    return found


def picture(c: Capsule) -> Turned:
    """Return the picture of a capsule."""
    return Turned(c.start, c.end, c.radius, c.radius, c.radius, c.radius)


def moved_solid(solid: S, pose: Vector) -> S:
    """Return a solid in the frame that its own has a pose in, (4, 4)."""
    ends = (pose[:3, :3] @ np.array(end) + pose[:3, 3] for end in (solid.start, solid.end))
    start, end = map(point_of, ends)
    return replace(solid, start=start, end=end)
