# SPDX-License-Identifier: Apache-2.0
"""Checks for collisions at the start configuration."""

from __future__ import annotations

import re

import pytest
from repository import CONFIG

from multipanda_py.cell.checks import check_initial_contacts
from multipanda_py.config.cell_file import CellConfig

pytestmark = pytest.mark.inline


def cell(objects=None, **arm):
    return CellConfig.from_dict({"arms": {"left": arm}, "objects": objects or {}})


def test_arm_in_box_passed_check_and_faulted_at_once():
    """The box, 0.1 m wide and 0.15 to 0.45 m high, is at joint 4."""
    box = {"shape": "box", "size": [0.1, 0.1, 0.3], "position": [0.35, 0.0, 0.3]}
    (sentence,) = check_initial_contacts(cell({"box": box}))
    assert re.match(r"left .*\bbox: .*\bleft_fr3_", sentence)
    assert sentence.endswith("arms.left.q_start")
    box["position"] = [0.35, 0.6, 0.3]
    assert not check_initial_contacts(cell({"box": box}))


def test_arm_in_floor_is_reported():
    down = [0.0, 1.7, 0.0, -0.3, 0.0, 2.0, 0.785]
    (sentence, *_) = check_initial_contacts(cell(q_start=down))
    assert re.match(r"left .*\bfloor: .*\bleft_fr3_", sentence)


@pytest.mark.parametrize("name", ["dual_sim", "quad_sim", "four_arms_sim", "positions_sim"])
def test_shipped_cells_start_without_collision(name):
    assert not check_initial_contacts(CellConfig.from_yaml(CONFIG / f"{name}.yaml"))
