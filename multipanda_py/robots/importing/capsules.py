# SPDX-License-Identifier: Apache-2.0
"""Capsules that enclose the links of an arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from multipanda_py.robots.extra_data import default_capsules
from multipanda_py.robots.geometry import Capsule
from multipanda_py.robots.importing.geometry import Cloud, Shape, joined, min_capsule, volume
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.tree import Chain


def inertia_warnings(name: str, body: Load, around: Cloud) -> Iterator[str]:
    r"""Yield warnings on inertial properties that no body within a link's geometry can have.

    With the points :math:`p_i` of the geometry, the centre of mass :math:`c`, the inertia I and
    the mass :math:`m`, every such body has

    .. math::
        c \in \mathrm{conv}\{p_i\}, \qquad
        \operatorname{tr} I / 2 \le m \max_i \lVert p_i - c \rVert^2

    The first condition is checked in many directions. Violations are warnings only, because the
    geometry may be simpler than the link.

    Args:
        name: Name of the link.
        body: Inertial properties in the link's frame.
        around: Geometry in the same frame.
    """
    com = body.com
    if (out := around.distance_outside(com)) > 0.0:
        yield f"link {name}: its centre of mass is {1e3 * out:.0f} mm outside of its geometry"
    away = float((np.linalg.norm(around.points - com, axis=1) + around.radii).max())
    gyration = float(np.sqrt(np.trace(body.inertia) / 2.0 / body.mass))
    if gyration > away:
        yield (
            f"link {name}: by its inertia, its mass is {1e3 * gyration:.0f} mm from its centre of "
            f"mass (root mean square), but its geometry ends at {1e3 * away:.0f} mm. Check units "
            "and inertia"
        )


MAX_VOLUME_RATIO = 1.1
"""Maximum volume of a common capsule of two parts, relative to the sum of their own capsules."""
MAX_COMPARED_PARTS = 6
"""Maximum number of parts of which all pairs are compared. If there are more, the nearest ones are
joined first."""


def capsules_around(parts: Sequence[Cloud], max_capsules: int) -> tuple[Capsule, ...]:
    """Return capsules that together contain all parts.

    Two parts are joined while there are too many of them, or while the common capsule of two is
    hardly larger than their own capsules together. The pair with the smallest growth in volume is
    joined first.

    Args:
        parts: Convex parts of a link.
        max_capsules: Maximum number of capsules.
    """
    clouds = list(parts)
    while len(clouds) > MAX_COMPARED_PARTS:
        _, one, other = _smallest_capsule(clouds, _distance)
        _replace(clouds, one, other, joined((one, other)))
    capsules: dict[Cloud, Capsule] = {}
    pairs: dict[tuple[Cloud, Cloud], Cloud] = {}

    def around(cloud: Cloud) -> Capsule:
        if cloud not in capsules:
            capsules[cloud] = min_capsule(cloud)
        return capsules[cloud]

    def growth(one: Cloud, other: Cloud) -> float:
        both = pairs.setdefault((one, other), joined((one, other)))
        return volume(around(both)) / (volume(around(one)) + volume(around(other)))

    while len(clouds) > 1:
        ratio, one, other = _smallest_capsule(clouds, growth)
        if ratio > MAX_VOLUME_RATIO and len(clouds) <= max_capsules:
            break
        _replace(clouds, one, other, pairs[one, other])
    return tuple(around(cloud) for cloud in clouds)


def _smallest_capsule(
    clouds: Sequence[Cloud], measure: Callable[[Cloud, Cloud], float]
) -> tuple[float, Cloud, Cloud]:
    """Return the smallest measure of all pairs, and its pair."""
    return min(
        ((measure(one, other), one, other) for one, other in combinations(clouds, 2)),
        key=lambda entry: entry[0],
    )


def _distance(one: Cloud, other: Cloud) -> float:
    return float(np.linalg.norm(one.points.mean(axis=0) - other.points.mean(axis=0)))


def _replace(clouds: list[Cloud], one: Cloud, other: Cloud, both: Cloud) -> None:
    clouds.remove(one)
    clouds.remove(other)
    clouds.append(both)


@dataclass(frozen=True)
class Fit:
    """Capsules fitted to an arm.

    Attributes:
        capsules: Capsules by link of the description, in its frame.
        origins: Source of the capsules, by link.
        warnings: Warnings on inertias that contradict the geometry.
    """

    capsules: Mapping[str, tuple[Capsule, ...]]
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def fit_capsules(
    chain: Chain, shapes: Mapping[str, Mapping[str, Sequence[Shape]]], max_capsules: int
) -> Fit:
    """Fit capsules to the geometry of links; a link without geometry gets one between its joints.

    Collision geometry is preferred to visual geometry.

    Args:
        chain: Chain of the arm.
        shapes: Shapes by link of the description, and by ``collision`` and ``visual``.
        max_capsules: Maximum number of capsules per link of the description.

    Raises:
        ConfigurationError: A mesh cannot be read.
    """
    capsules: dict[str, tuple[Capsule, ...]] = {}
    origins: dict[str, str] = {}
    around: list[list[Cloud]] = [[] for _ in chain.links]
    for link, (number, pose) in chain.link_indices.items():
        kinds = ((kind, value) for kind, value in shapes.get(link, {}).items() if value)
        for kind, result in list(kinds)[:1]:
            parts = [shape.cloud() for shape in result]
            capsules[link] = capsules_around(parts, max_capsules)
            origins[link] = f"around its {kind} geometry"
            around[number].append(joined(parts).placed(pose[:3, 3], pose[:3, :3]))
    _, placement = chain.link_indices[chain.tip]
    rods = default_capsules(chain, placement[:3, 3])
    warnings: list[str] = []
    for link, body, clouds in zip(chain.links, chain.bodies, around):
        if clouds and body.mass > 0.0:
            warnings += inertia_warnings(link, body, joined(clouds))
        elif not clouds and link in rods:
            capsules[link] = rods[link]
            origins[link] = "from joint to joint, because it has no geometry. CHECK the radius"
    return Fit(capsules, origins, tuple(warnings))
