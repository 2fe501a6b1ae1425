# SPDX-License-Identifier: Apache-2.0
"""One or a few capsules around the parts of a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from multipanda_py.importing.capsule import least_capsule, volume
from multipanda_py.importing.cloud import Cloud, joined
from multipanda_py.robots.shapes import Capsule

WORTH = 1.1
"""Parts get one capsule if it has at most this multiple of the volume of theirs."""
COMPARED = 6
"""Parts of which all pairs are tried; what is more is joined with its nearest before."""


def capsules_around(parts: Sequence[Cloud], most: int) -> tuple[Capsule, ...]:
    """Return capsules that contain all parts, at most so many.

    Parts are joined as long as there are too many, or one capsule is hardly larger than two;
    those first that grow least by it.
    """
    clouds = list(parts)
    while len(clouds) > COMPARED:
        _, one, other = _least(clouds, _distance)
        _replace(clouds, one, other, joined((one, other)))
    capsules: dict[Cloud, Capsule] = {}
    pairs: dict[tuple[Cloud, Cloud], Cloud] = {}

    def around(cloud: Cloud) -> Capsule:
        if cloud not in capsules:
            capsules[cloud] = least_capsule(cloud)
        return capsules[cloud]

    def growth(one: Cloud, other: Cloud) -> float:
        both = pairs.setdefault((one, other), joined((one, other)))
        return volume(around(both)) / (volume(around(one)) + volume(around(other)))

    while len(clouds) > 1:
        ratio, one, other = _least(clouds, growth)
        if ratio > WORTH and len(clouds) <= most:
            break
        _replace(clouds, one, other, pairs[one, other])
    return tuple(around(cloud) for cloud in clouds)


def _least(
    clouds: Sequence[Cloud], measure: Callable[[Cloud, Cloud], float]
) -> tuple[float, Cloud, Cloud]:
    """Return the pair that measures least."""
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
