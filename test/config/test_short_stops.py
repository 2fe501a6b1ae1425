# SPDX-License-Identifier: Apache-2.0
"""Motors whose stops are in the way of their joints: whoever checks a cell file is told."""

from __future__ import annotations

import re

import pytest
from springs_of_fr3 import springs

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.checks import check_motor_ranges

pytestmark = pytest.mark.inline


def checked(**wrist):
    groups = springs("equilibrium_pid")
    groups["wrist"]["motor"] |= wrist
    return check_motor_ranges(CellConfig.from_dict({"arms": {"left": {"actuators": groups}}}))


def test_stops_beyond_the_joints_are_no_news():
    assert checked() == []
    assert checked(min_position=-6.0, max_position=6.0) == []
    assert check_motor_ranges(CellConfig.from_dict({"arms": {"left": {}}})) == []


def test_a_joint_that_goes_further_than_its_motors_is_said():
    (said,) = checked(min_position=[-6.0, -6.0, -1.0], max_position=6.0)
    assert said.startswith("arms.left.actuators: ")
    assert "joint5" not in said
    # The motors of a qbmove stand a preset to either side: one of them meets its stop later.
    preset = springs()["wrist"]["preset"]
    assert re.search(f"joint7 .*{-1.0 + preset:.3g} .*{6.0 - preset:.3g} rad", said)
    assert "starts at" not in said


def test_a_start_that_stops_forbid_is_said():
    (said,) = checked(min_position=[-6.0, -6.0, 2.0], max_position=6.0)
    assert said.endswith("starts at 0.785 rad")
