# SPDX-License-Identifier: Apache-2.0
"""Torque rate limits of a cell file below those of the robot."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.mark.parametrize("rate", [None, 200.0])
def test_torque_rate_is_bounded_by_cell_file(make_cell, rate):
    """The controllet requests a step of about 60 N; the command is a ramp."""
    arm = {} if rate is None else {"torque_rate": rate}
    law = {"type": "cartesian_impedance", "params": {"governor.enabled": False}}
    cell = make_cell(arms={"arm": arm}, controllets={"law": law}, active=["arm/law"])
    cell.step(20)
    here = cell.pose("arm")
    cell.set_target("arm", Pose(here.position + [0.0, 0.14, 0.0], here.rotation))
    cell.step(200)
    _, rows = cell.records()
    steepest = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() / 1e-3
    assert steepest == pytest.approx(rate or 1000.0, rel=1e-6)


def test_governor_avoids_lower_torque_rate_limit(make_cell):
    for rate in (150.0, 1000.0):
        law = {"type": "joint_impedance"}
        cell = make_cell(
            arms={"arm": {"torque_rate": rate}}, controllets={"law": law}, active=["arm/law"]
        )
        cell.step(20)
        goal = cell.state("arm").q + [0.39, 0.3, 0, -0.3, 0, 0, 0]
        cell.set_target("arm", q=goal)
        cell.step(3000)
        _, rows = cell.records()
        steps = np.abs(np.diff(rows["arms"]["tau"][20:, 0], axis=0)).max(axis=1) / 1e-3
        assert (steps > 0.99 * rate).mean() < 0.005
        assert np.abs(cell.state("arm").q - goal).max() < 2e-3
        assert cell.state("arm").fault == ""


@pytest.mark.parametrize("rate", [0.0, 99.0, 1001.0, "fast"])
def test_invalid_torque_rate_is_refused(rate):
    data = {"arms": {"arm": {"torque_rate": rate}}, "controllets": {}}
    with pytest.raises(ConfigurationError, match=r"arms\.arm\.torque_rate"):
        CellConfig.from_dict(data)
