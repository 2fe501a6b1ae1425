# SPDX-License-Identifier: Apache-2.0
"""Arms that stand within one another are named before anything moves."""

from __future__ import annotations

import math
import re

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import check_overlapping_bases

pytestmark = pytest.mark.inline


def cell(**right):
    place = [0.0, 0.3, 0.0]
    return CellConfig.from_dict({"arms": {"left": {"position": place}, "right": right}})


def test_two_arms_at_one_base_pose_passed_without_a_word():
    """Both faulted as soon as the cell ran, and nothing said why."""
    (sentence,) = check_overlapping_bases(cell(position=[0.0, 0.3, 0.0]))
    assert re.match(r"left and right\b.*\b0\.000 m\b", sentence)
    assert "arms.right.position" in sentence
    assert check_overlapping_bases(cell(position=[0.05, 0.3, 0.0], rpy=[0.0, 0.0, 1.0]))


def test_arms_side_by_side_or_on_both_sides_of_a_plate_are_meant():
    assert not check_overlapping_bases(cell(position=[0.0, -0.3, 0.0]))
    assert not check_overlapping_bases(cell(position=[0.0, 0.3, -0.02], rpy=[math.pi, 0.0, 0.0]))
