# SPDX-License-Identifier: Apache-2.0
"""Features come and go without a step in the torque."""

from __future__ import annotations

import numpy as np
import pytest
from cell_names import LEFT_CARTESIAN

from multipanda_py.exceptions import ParameterRejected
from multipanda_py.realtime.feature_set import FADE_TIME

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def features_of(cell, name=LEFT_CARTESIAN):
    """Return what takes part in an instance's cycle."""
    active = cell.loop.owners.active
    return next(i.features for i in active if i.spec.name == name)


def test_the_torque_of_a_feature_fades_out_and_in(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.step(50)
    bent = cell.state("left").q + [0.0, 0, 0.3, 0, 0, 0, 0]
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.projector": "none", "governor.enabled": False})
    cell.step()
    cell.set_target("left", q=bent)
    cell.step(200)
    for wanted in (False, True):
        _, before = cell.rows()
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": wanted})
        cell.step(round(FADE_TIME * 1000) + 20)
        _, rows = cell.rows(before["cycle"][-1])
        steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max()
        assert steps < 0.1
    assert not features_of(cell).changing


def test_a_feature_that_is_off_adds_nothing_and_costs_nothing(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": False, "coriolis.enabled": False})
    cell.step(150)
    adding = [type(f).__name__ for f in features_of(cell).adding]
    assert not {"Nullspace", "Coriolis"} & set(adding)


def test_a_feature_switched_off_in_the_cell_file_starts_off(make_cell):
    law = {"type": "cartesian_impedance", "params": {"nullspace": {"enabled": False}}}
    cell = make_cell(controllets={"law": law}, active=["left/law"])
    assert cell.parameters("left/law")["nullspace.enabled"] is False
    assert "Nullspace" not in [type(f).__name__ for f in features_of(cell, "left/law").adding]


def test_changing_ones_mind_in_the_middle_of_a_fade_makes_no_step(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    cell.set_parameters(LEFT_CARTESIAN, {"nullspace.projector": "none", "governor.enabled": False})
    cell.step()
    cell.set_target("left", q=cell.state("left").q + [0.0, 0, 0.3, 0, 0, 0, 0])
    cell.step(200)
    start = cell.rows()[1]["cycle"][-1]
    for wanted in (False, True, False, True):
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": wanted})
        cell.step(37)
    _, rows = cell.rows(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() < 0.15


def test_the_switch_is_a_flag_and_nothing_else(make_cell):
    cell = make_cell(active=[LEFT_CARTESIAN])
    with pytest.raises(ParameterRejected, match="true or false"):
        cell.set_parameters(LEFT_CARTESIAN, {"nullspace.enabled": 0.5})
