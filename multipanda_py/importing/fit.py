# SPDX-License-Identifier: Apache-2.0
"""Capsules around the links of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multipanda_py.importing.cloud import Cloud, joined
from multipanda_py.importing.parts import capsules_around
from multipanda_py.importing.plausible import doubts
from multipanda_py.importing.shape import Shape
from multipanda_py.robots.chain import Chain
from multipanda_py.robots.defaults import default_capsules
from multipanda_py.robots.shapes import Capsule


@dataclass(frozen=True)
class Fit:
    """Capsules of an arm.

    Attributes:
        capsules: By link of the description, in its frame.
        origins: What they were fitted to, by link.
        doubts: What cannot be true of the inertias within this geometry.
    """

    capsules: Mapping[str, tuple[Capsule, ...]]
    origins: Mapping[str, str]
    doubts: tuple[str, ...]


def fit_capsules(
    chain: Chain, shapes: Mapping[str, Mapping[str, Sequence[Shape]]], most: int
) -> Fit:
    """Fit capsules to the geometry of links; those that have none get one from joint to joint.

    Collision geometry counts, or pictures where there is none.

    Args:
        chain: The arm.
        shapes: By link of the description, and by ``collision`` and ``visual``.
        most: Capsules per link of the description.

    Raises:
        ConfigurationError: If a mesh cannot be read.
    """
    capsules: dict[str, tuple[Capsule, ...]] = {}
    origins: dict[str, str] = {}
    around: list[list[Cloud]] = [[] for _ in chain.links]
    for link, (number, pose) in chain.places.items():
        kinds = ((kind, found) for kind, found in shapes.get(link, {}).items() if found)
        for kind, found in list(kinds)[:1]:
            parts = [shape.cloud() for shape in found]
            capsules[link] = capsules_around(parts, most)
            origins[link] = f"around its {kind} geometry"
            around[number].append(joined(parts).placed(pose[:3, 3], pose[:3, :3]))
    _, place = chain.places[chain.tip]
    rods = default_capsules(chain, place[:3, 3])
    said: list[str] = []
    for link, body, clouds in zip(chain.links, chain.bodies, around):
        if clouds and body.mass > 0.0:
            said += doubts(link, body, joined(clouds))
        elif not clouds and link in rods:
            capsules[link] = rods[link]
            origins[link] = "from joint to joint, as it has no geometry. CHECK the radius"
    return Fit(capsules, origins, tuple(said))
