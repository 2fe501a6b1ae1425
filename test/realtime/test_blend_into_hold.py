# SPDX-License-Identifier: Apache-2.0
"""Immediate start of hold, independent of the blend time of controllets."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.mark.parametrize("cause", ["stop", "nan", "raise"])
def test_stopped_arm_was_driven_for_whole_blend_time(make_cell, cause):
    cell = make_cell(
        controllets={"odd": {"type": "misbehaving"}}, active=["left/odd"], blend_time=1.0
    )
    cell.set_parameters("left/odd", {"torque": 4.0})
    cell.step(60)
    before = cell.state("left")
    assert np.abs(before.dq).max() > 0.5
    assert before.owner == "left/odd"
    if cause == "stop":
        cell.hold()
    else:
        cell.set_parameters("left/odd", {"fault": cause})
    start, _ = cell.records()
    cell.step(600)
    after = cell.state("left")
    assert np.abs(after.dq).max() < 0.05
    assert np.abs(after.q - before.q).max() < 0.2
    assert after.fault in ("", "non_finite_torque", "controllet_error")  # not velocity_limit
    _, rows = cell.records(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() <= 1.0 + 1e-9


def test_blend_time_follows_cell_file(make_cell):
    cell = make_cell(controllets={"odd": {"type": "misbehaving"}}, blend_time=0.5)
    cell.set_parameters("left/odd", {"torque": 1.0})
    cell.switch(["left/odd"])
    cell.step(250)
    np.testing.assert_allclose(cell.state("left").tau, 0.5, atol=0.01)
