# SPDX-License-Identifier: Apache-2.0
"""The varied cells that tasks are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.testing import varied_cell

CELL = Path(__file__).parents[1] / "config" / "relocate_sim.yaml"


def drawn(seed):
    """Return all frictions and masses of a varied cell."""
    config = varied_cell(CELL, seed).config
    scene_objects = config.objects.values()
    return [
        config.arms["arm"].tool.friction,
        *(t.friction for t in scene_objects),
        *(t.mass for t in scene_objects),
    ]


def test_a_tip_of_rubber_is_varied_with_the_things_that_it_holds():
    """It had its nominal friction for every seed, and held whatever the things were like."""
    requested = CellConfig.from_yaml(CELL)
    nominal = [
        requested.arms["arm"].tool.friction,
        *(t.friction for t in requested.objects.values()),
    ]
    nominal += [t.mass for t in requested.objects.values()]
    assert drawn(0) == nominal
    assert drawn(1) == drawn(1)
    for seed in range(1, 6):
        for value, mean in zip(drawn(seed), nominal):
            assert value == pytest.approx(mean, rel=0.2)
            assert mean == 0.0 or abs(value - mean) > 1e-6
