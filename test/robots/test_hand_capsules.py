# SPDX-License-Identifier: Apache-2.0
"""Capsules of the hand for planning cover its contact geometry in MuJoCo."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.models import FRANKA_HAND

pytestmark = pytest.mark.inline


def outside(points):
    """Return the largest distance of points outside all hand capsules, in hand frame [m]."""
    found = []
    for capsule in FRANKA_HAND.capsules:
        start, along = np.array(capsule.start), np.subtract(capsule.end, capsule.start)
        fraction = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
        apart = np.linalg.norm(points - start - fraction[:, None] * along, axis=1)
        found.append(apart - capsule.radius)
    return np.min(found, axis=0).max()


def test_plan_with_5_mm_clearance_touched_box_by_4_mm():
    (body,) = FRANKA_HAND.body.contact
    directions = np.random.default_rng(0).normal(size=(4000, 3))
    ball = body.radius * directions / np.linalg.norm(directions, axis=1)[:, None]
    surface = np.vstack([ball + body.start, ball + body.end])
    assert outside(surface) < 1e-9


@pytest.mark.parametrize("width", [0.0, 0.02, 0.04])
def test_fingers_exceed_capsules_by_2_5_mm_at_most(width):
    for finger, block in product(FRANKA_HAND.fingers, FRANKA_HAND.fingers[0].contact):
        corners = np.array(list(product(*[np.linspace(-1.0, 1.0, 5)] * 3))) * block.half_size
        corners = corners @ rotation_from_rpy(block.roll, 0.0, 0.0).T + block.center
        corners += width * np.array(finger.axis)
        corners = corners @ rotation_from_rpy(*finger.origin.rpy).T + finger.origin.position
        assert outside(corners) < 2.5e-3
