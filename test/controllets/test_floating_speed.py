# SPDX-License-Identifier: Apache-2.0
"""Bounded speed of floating arms with unknown loads."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.inline


@pytest.mark.sim
@pytest.mark.parametrize("arm", [{"payload": 1.0}, {"payload": 1.0, "state_delay": 0.005}])
def test_unknown_payload_accelerated_floating_arm_without_bound(make_cell, arm):
    laws = {"law": {"type": "gravity_compensation"}}
    cell = make_cell(arms={"arm": {"perturbation": arm}}, controllets=laws, active=["arm/law"])
    cell.step(1500)
    dq = cell.records()[1]["arms"]["dq"][:, 0]
    assert 0.3 < np.abs(dq).max() < 1.3
    assert cell.state("arm").fault == ""


@pytest.mark.sim
@pytest.mark.parametrize(
    "leader",
    [
        {"perturbation": {"payload": 1.0, "state_delay": 0.005}},
        {"perturbation": {"torque_bias": [0.5] * 7}},
    ],
    ids=["load", "bias"],
)
def test_free_leader_with_unknown_load_accelerated_without_bound(make_cell, leader):
    laws = {"law": {"type": "teleoperation", "arms": ["left", "right"]}}
    arms = {
        "left": {"position": [0.0, 0.4, 0.0], **leader},
        "right": {"position": [0.0, -0.4, 0.0]},
    }
    cell = make_cell(arms=arms, controllets=laws, active=["law"])
    cell.step(1500)
    dq = cell.records()[1]["arms"]["dq"][:, 0]
    assert 0.3 < np.abs(dq).max() < 1.3
    assert not cell.state("left").fault
    assert not cell.state("right").fault
