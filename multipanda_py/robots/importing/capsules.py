# SPDX-License-Identifier: Apache-2.0
"""Capsules that enclose the links of an arm, fitted to their geometry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi

import numpy as np

from multipanda_py.robots.extra_data import default_capsules
from multipanda_py.robots.geometry import Capsule, rotation_of_axis
from multipanda_py.robots.importing.source import Cloud, Shape, joined
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.tree import Chain
from multipanda_py.state import Matrix, Vector

RADIUS_FACTORS = np.array([1.0, 1.01, 1.02, 1.04, 1.06, 1.08, 1.1, 1.14, 1.2, 1.3, 1.5])
"""Radii to try for a capsule along a given line, as multiples of the smallest possible radius."""
FIRST_STEP, LAST_STEP = 0.3, 0.003
"""Initial and final step of the search for a capsule's axis: angle [rad], and offset as a fraction
of the size of the geometry."""
MIN_SEGMENT_LENGTH = 1e-3
"""Minimum length of a capsule's segment, which must have a direction [m]."""


def volume(capsule: Capsule) -> float:
    """Return the volume of a capsule [m^3]."""
    length = float(np.linalg.norm(np.subtract(capsule.end, capsule.start)))
    return pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius)


def min_capsule(cloud: Cloud) -> Capsule:
    r"""Return a small capsule that contains a cloud of balls.

    Let ball :math:`i` have the radius :math:`s_i`, the height :math:`t_i` along a line and the
    distance :math:`\rho_i` from it. A capsule along this line with the radius
    :math:`r \ge \max_i (\rho_i + s_i)` then needs the segment

    .. math::
        \left[ \min_i \left( t_i + c_i \right),\ \max_i \left( t_i - c_i \right) \right],
        \qquad c_i = \sqrt{(r - s_i)^2 - \rho_i^2}.

    The result is a local minimum of the volume, and always the same for the same cloud.
    """
    low = (cloud.points - cloud.radii[:, None]).min(axis=0)
    high = (cloud.points + cloud.radii[:, None]).max(axis=0)
    middle, size = (low + high) / 2.0, float(np.linalg.norm(high - low))
    local = Cloud((cloud.points - middle) / size, cloud.radii / size)
    outer = local.outermost()
    centred = outer.points - outer.points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    lines = [_search_capsule_axis(outer, axis) for axis in axes]
    positions, axes = (np.array(values) for values in zip(*lines))
    volumes, starts, ends, radii = _min_capsules_along(local, positions, axes)
    i = int(np.argmin(volumes))
    lack = max(0.0, MIN_SEGMENT_LENGTH / size - float(ends[i] - starts[i])) / 2.0
    heights = (starts[i] - lack, ends[i] + lack)
    first, second = ((positions[i] + height * axes[i]) * size + middle for height in heights)
    (x, y, z), (u, v, w) = first.tolist(), second.tolist()
    return Capsule((x, y, z), (u, v, w), float(radii[i] * size))


def _search_capsule_axis(cloud: Cloud, start_axis: Vector) -> tuple[Vector, Vector]:
    """Return position, (3,) [m], and direction, (3,), of the axis of a small capsule."""
    frame = rotation_of_axis(start_axis)
    across = cloud.points @ frame
    center = frame @ ((across.min(axis=0) + across.max(axis=0)) / 2.0)
    min_value, step = np.inf, FIRST_STEP
    while step > LAST_STEP:
        sides = np.concatenate((frame[:, :2].T, -frame[:, :2].T)) * step
        tilted = frame[:, 2] + sides
        tilted /= np.linalg.norm(tilted, axis=1)[:, None]
        axes = np.concatenate((frame[None, :, 2], np.tile(frame[:, 2], (4, 1)), tilted))
        positions = np.concatenate((center[None], center + sides, np.tile(center, (4, 1))))
        volumes = _min_capsules_along(cloud, positions, axes)[0]
        i = int(np.argmin(volumes))
        if i and volumes[i] < min_value:
            center, frame = positions[i], rotation_of_axis(axes[i])
        else:
            step /= 2.0
        min_value = volumes[i]
    return center, frame[:, 2]


def _min_capsules_along(
    cloud: Cloud, positions: Matrix, axes: Matrix
) -> tuple[Vector, Vector, Vector, Vector]:
    """Return volumes [m^3], both ends along the k lines [m] and radii [m], (k,) each."""
    offsets = cloud.points - positions[:, None]
    heights = np.einsum("knj,kj->kn", offsets, axes)
    away = np.sqrt(np.maximum((offsets**2).sum(axis=2) - heights**2, 0.0))
    radii = (away + cloud.radii).max(axis=1)[:, None] * RADIUS_FACTORS
    remaining = (radii[:, :, None] - cloud.radii) ** 2 - away[:, None] ** 2
    reach = np.sqrt(np.maximum(remaining, 0.0))
    starts = (heights[:, None] + reach).min(axis=2)
    ends = (heights[:, None] - reach).max(axis=2)
    # If a sphere contains all balls, the start is beyond the end. Both are then set to the middle.
    middles = (starts + ends) / 2.0
    starts, ends = np.minimum(starts, middles), np.maximum(ends, middles)
    volumes = pi * radii**2 * (ends - starts + 4.0 / 3.0 * radii)
    best = (np.arange(len(positions)), volumes.argmin(axis=1))
    return volumes[best], starts[best], ends[best], radii[best]


def inertia_warnings(name: str, body: Load, around: Cloud) -> Iterator[str]:
    r"""Yield warnings on inertial properties that no body within a link's geometry can have.

    With the points :math:`p_i` of the geometry, the centre of mass :math:`c`, the inertia I and
    the mass :math:`m`, every such body has

    .. math::
        c \in \mathrm{conv}\{p_i\}, \qquad
        \operatorname{tr} I / 2 \le m \max_i \lVert p_i - c \rVert^2

    Args:
        name: Name of the link, for messages.
        body: Inertial properties of the link, in its frame.
        around: Geometry of the link, in its frame.
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
"""Volume up to which two parts share a capsule, relative to the sum of their own capsules."""
MAX_COMPARED_PARTS = 6
"""Maximum number of parts of which all pairs are compared. If there are more, the nearest ones are
joined first."""


def capsules_around(parts: Sequence[Cloud], max_capsules: int) -> tuple[Capsule, ...]:
    """Return at most ``max_capsules`` capsules that contain all convex parts of a link.

    Parts share a capsule if it adds little volume (``MAX_VOLUME_RATIO``), or there are too many.
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
        capsules: Capsules by link name, in the frame of the link.
        origins: Text on the source of the capsules, by link name.
        warnings: Warnings on inertias that contradict the geometry.
    """

    capsules: Mapping[str, tuple[Capsule, ...]]
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def fit_capsules(
    chain: Chain, shapes: Mapping[str, Mapping[str, Sequence[Shape]]], max_capsules: int
) -> Fit:
    """Fit capsules to the geometry of the links of an arm.

    Links without collision geometry use their visual geometry. Links without any geometry get a
    capsule from their joint to the next joint.

    Args:
        chain: Chain of the arm.
        shapes: Shapes by link name, and by ``collision`` and ``visual``.
        max_capsules: Maximum number of capsules per link.

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
