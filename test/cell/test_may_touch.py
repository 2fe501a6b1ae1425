# SPDX-License-Identifier: Apache-2.0
"""Notes on controllets that may touch fixed objects."""

from __future__ import annotations

import re

import pytest

from multipanda_py.cell.checks import check_allowed_contacts
from multipanda_py.config.cell_file import CellConfig

pytestmark = pytest.mark.inline

LAW = {"type": "cartesian_impedance"}


def reported(**law):
    config = {"arms": {"left": {}, "right": {}}, "controllets": {"law": law}}
    return check_allowed_contacts(CellConfig.from_dict(config))


@pytest.mark.parametrize(
    "law",
    [
        {"type": "joint_impedance"},
        {**LAW, "params": {"collision_avoidance": {"fixed_objects": "all"}}},
        {**LAW, "params": {"collision_avoidance.fixed_objects": "all"}},
    ],
)
def test_controllets_that_avoid_all_objects_need_no_note(law):
    assert reported(**law) == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"collision_avoidance": {"fixed_objects": "by_law"}},
        {"collision_avoidance": {"fixed_objects": "without_gripper"}},
    ],
)
def test_grippers_that_may_touch_are_reported_once_for_all_arms(params):
    (sentence,) = reported(**LAW, params=params)
    assert re.match(r"grippers\b.*\bfloor\b.*\blaw acts, ", sentence)


@pytest.mark.parametrize(
    "law",
    [
        {**LAW, "features": ["coriolis"]},
        {**LAW, "params": {"collision_avoidance": {"enabled": False}}},
        {**LAW, "params": {"collision_avoidance": {"fixed_objects": "ignore"}}},
    ],
)
def test_controllets_that_may_touch_with_whole_arm_are_reported(law):
    (sentence,) = reported(**law)
    assert re.match(r"whole arms\b.*\blaw acts, ", sentence)
