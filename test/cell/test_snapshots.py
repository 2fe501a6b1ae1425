# SPDX-License-Identifier: Apache-2.0
"""Snapshots of arms, compared with their rows."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from multipanda_py.state import COMMAND_INTERFACES, ArmSnapshot

pytestmark = pytest.mark.inline

ARMS = {"left": {"position": [0, 0.5, 0]}, "right": {"model": "ur5e", "position": [0, -0.5, 0]}}


def test_snapshot_fields_equal_fields_of_row(make_cell):
    cell = make_cell(ARMS)
    cell.switch(["right/joint_impedance_controller"])
    cell.set_target("right", q=cell.state("right").q + 0.1)
    cell.step(30)
    row = cell.latest_record()
    for index, (name, joints) in enumerate((("left", 7), ("right", 6))):
        state, record = cell.state(name), row["arms"][index]
        for field in fields(ArmSnapshot):
            shown = getattr(state, field.name)
            if isinstance(shown, np.ndarray):
                own = record[field.name]
                own = own[:joints] if own.shape == (7,) else own
                np.testing.assert_array_equal(shown, own, field.name)
        assert (state.name, state.time, state.fault) == (name, row["time"], "")
        assert state.interface == COMMAND_INTERFACES[record["interface"]]
        assert state.rotation_ee_in_base.shape == (3, 3)
        assert state.owner == ("left/hold", "right/joint_impedance_controller")[index]
    assert np.abs(cell.state("right").tau).max() > 0.1
    before = cell.state("left").q.copy()
    cell.state("left").q[:] = 0.0
    np.testing.assert_array_equal(cell.state("left").q, before)
