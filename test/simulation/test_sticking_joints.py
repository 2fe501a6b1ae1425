# SPDX-License-Identifier: Apache-2.0
"""Arms crept under a load that the dry friction of their joints had to hold."""

from __future__ import annotations

import numpy as np
import pytest
from springs_of_fr3 import springs

pytestmark = pytest.mark.inline

FRICTION = 4.0
LAWS = {"free": {"type": "gravity_compensation"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arm",
    [
        {"joint_friction": [FRICTION] * 7},
        {"perturbation": {"coulomb": [FRICTION] * 7}},
        {"joint_friction": [FRICTION] * 7, "actuators": springs()},
    ],
    ids=["known friction", "unknown friction", "on springs"],
)
def test_an_arm_sticks_to_a_milliradian_in_ten_seconds(make_cell, arm):
    cell = make_cell({"arm": {"gripper": False, **arm}}, LAWS, ["arm/free"])
    cell.step(1000)
    cell.simulation.apply_wrench("arm_fr3_link7", [4.0, 4.0, 4.0])
    cell.step(1500)  # what the joints give way by at first, springs above all
    before = cell.state("arm").q
    cell.step(500)
    assert np.abs(cell.state("arm").q - before).max() < 0.5e-4
    cell.simulation.apply_wrench("arm_fr3_link7", [40.0, 0.0, 0.0])
    cell.step(100)
    assert np.abs(cell.state("arm").dq).max() > 0.01, "it slips under ten times the load"
