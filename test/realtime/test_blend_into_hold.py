# SPDX-License-Identifier: Apache-2.0
"""Hold takes over at once, however slowly laws are blended into each other."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.mark.parametrize("way", ["stop", "nan", "raise"])
def test_a_stopped_arm_was_pushed_on_for_as_long_as_laws_are_blended(make_cell, way):
    cell = make_cell(
        controllets={"odd": {"type": "misbehaving"}}, active=["left/odd"], blend_time=1.0
    )
    cell.set_parameters("left/odd", {"torque": 4.0})
    cell.step(60)
    before = cell.state("left")
    assert np.abs(before.dq).max() > 0.5
    assert before.owner == "left/odd"
    if way == "stop":
        cell.hold()
    else:
        cell.set_parameters("left/odd", {"fault": way})
    start, _ = cell.records()
    cell.step(600)
    after = cell.state("left")
    assert np.abs(after.dq).max() < 0.05
    assert np.abs(after.q - before.q).max() < 0.2
    assert after.fault in ("", "non_finite_torque", "controllet_error")  # not velocity_limit
    _, rows = cell.records(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() <= 1.0 + 1e-9


def test_a_law_is_blended_in_as_slowly_as_the_cell_says(make_cell):
    cell = make_cell(controllets={"odd": {"type": "misbehaving"}}, blend_time=0.5)
    cell.set_parameters("left/odd", {"torque": 1.0})
    cell.switch(["left/odd"])
    cell.step(250)
    np.testing.assert_allclose(cell.state("left").tau, 0.5, atol=0.01)
