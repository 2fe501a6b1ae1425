# SPDX-License-Identifier: Apache-2.0
"""Randomised cells for tests of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.testing import varied_cell

CELL = Path(__file__).parents[1] / "config" / "relocate_sim.yaml"


def drawn(seed):
    """Return all frictions and masses of a randomised cell."""
    config = varied_cell(CELL, seed).config
    scene_objects = config.objects.values()
    return [
        config.arms["arm"].tool.friction,
        *(item.friction for item in scene_objects),
        *(item.mass for item in scene_objects),
    ]


def test_fingertip_friction_was_not_randomised():
    """The tip had its nominal friction for every seed, and grasped objects of any friction."""
    requested = CellConfig.from_yaml(CELL)
    nominal = [
        requested.arms["arm"].tool.friction,
        *(item.friction for item in requested.objects.values()),
    ]
    nominal += [item.mass for item in requested.objects.values()]
    assert drawn(0) == nominal
    assert drawn(1) == drawn(1)
    for seed in range(1, 6):
        for value, mean in zip(drawn(seed), nominal):
            assert value == pytest.approx(mean, rel=0.2)
            assert mean == 0.0 or abs(value - mean) > 1e-6
