# SPDX-License-Identifier: Apache-2.0
"""Which links of a chain touch in a posture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.chain import Chain
from multipanda_py.robots.chain_motion import link_poses
from multipanda_py.robots.shapes import Capsule

Vector = NDArray[np.float64]


def overlapping_links(
    capsules: Sequence[Sequence[Capsule]], chain: Chain, q: Vector
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of links that do not follow each other and yet touch in a posture."""
    poses = link_poses(chain, q)
    return tuple(
        (i, j)
        for i in range(len(capsules))
        for j in range(i + 2, len(capsules))
        if any(
            _distance(a, poses[i], b, poses[j]) <= a.radius + b.radius
            for a in capsules[i]
            for b in capsules[j]
        )
    )


def _distance(a: Capsule, pose_a: Vector, b: Capsule, pose_b: Vector) -> float:
    """Return the distance of two segments, to a twentieth of their lengths."""
    one, other = (
        np.array(list(_points(c))) @ p[:3, :3].T + p[:3, 3] for c, p in ((a, pose_a), (b, pose_b))
    )
    return float(np.linalg.norm(one[:, None] - other[None], axis=2).min())


def _points(capsule: Capsule) -> Iterator[Vector]:
    start, end = np.array(capsule.start), np.array(capsule.end)
    for share in np.linspace(0.0, 1.0, 21):
        yield start + share * (end - start)
