# SPDX-License-Identifier: Apache-2.0
"""Blocks of a gripper, and the capsules around it and the room of its fingers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.parallel_gripper import Finger, GripperBody, corners
from multipanda_py.robots.shapes import Block, Capsule, point_of

Matrix = NDArray[np.float64]


def block_of(where: str, pose: Matrix, edges: Matrix) -> Block:
    """Return a box as a block.

    Args:
        where: What it belongs to, for messages.
        pose: Of the box in the frame of its part, (4, 4).
        edges: Its size, (3,) [m].

    Raises:
        ConfigurationError: If no edge is along the x axis of the part.
    """
    along = np.abs(pose[0, :3])
    first = int(along.argmax())
    if along[first] < 1.0 - 1e-9:
        raise ConfigurationError(
            f"{where}: got a box with no edge along the x axis of what moves it, allowed boxes "
            "that are turned about x, or capsules of this link in the YAML"
        )
    order = [first, (first + 1) % 3, (first + 2) % 3]
    turn = pose[:3, :3][:, order]
    roll = float(np.arctan2(turn[2, 1], turn[1, 1]))
    return Block(point_of(pose[:3, 3]), point_of(edges[order] / 2.0), roll)


def room_of(
    body: GripperBody, fingers: Sequence[Finger], lower: float, upper: float
) -> tuple[Capsule, ...]:
    """Return capsules around each solid of a body, and one around all that fingers may take.

    Args:
        body: The body.
        fingers: Both, in its frame.
        lower: Position of a finger when it is closed [m].
        upper: When it is open [m].
    """
    found = [
        solid if isinstance(solid, Capsule) else _around(corners(solid)) for solid in body.contact
    ]
    points = [
        np.array(finger.origin.position)
        + (corners(solid) + q * np.array(finger.axis)) @ finger.origin.rotation.T
        for finger in fingers
        for solid in finger.contact
        for q in (lower, upper)
    ]
    return (*found, _around(np.vstack(points)))


def _around(points: Matrix) -> Capsule:
    """Return a capsule around the box of points along the axes, along its longest edge."""
    center, half = (points.max(0) + points.min(0)) / 2.0, np.ptp(points, axis=0) / 2.0
    longest = int(half.argmax())
    radius = float(np.linalg.norm(np.delete(half, longest)))
    ends = np.repeat(center[None], 2, axis=0)
    ends[:, longest] += np.array([-1.0, 1.0]) * half[longest]
    return Capsule(point_of(ends[0]), point_of(ends[1]), radius)
