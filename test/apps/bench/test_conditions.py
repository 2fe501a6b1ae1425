# SPDX-License-Identifier: Apache-2.0
"""Conditions of the paper, and cells that run them."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from multipanda_py.apps.bench.conditions import (
    CONDITIONS,
    FORCE_CONDITION,
    PLAIN_CONDITION,
    all_conditions,
    as_yaml,
    condition_cell,
    inline_cell,
    instances_of,
    row_of_arms,
    two_arms,
)
from multipanda_py.apps.bench.hot import inline_speed, laws_of, measure, parts_of
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def test_conditions_are_the_five_of_the_paper():
    assert CONDITIONS == ("DC-NF", "DC-CA", "DC-MA", "DC-CA-MA", "C-MA")


@pytest.mark.parametrize("condition", [*CONDITIONS, FORCE_CONDITION])
def test_controllets_of_condition_keep_arms_at_rest(condition):
    with condition_cell(condition) as cell:
        cell.step(20)
        block = laws_of(cell)
        assert set(cell.active) == set(instances_of(condition))
        block()
        assert not any(cell.state(arm).fault for arm in cell.arms)
        assert all(np.abs(cell.state(arm).dq).max() < 1e-3 for arm in cell.arms)
        assert measure({"laws": block}, 1, 10)["laws"]["median_us"] > 0.0


def test_single_cell_switches_to_every_condition(tmp_path):
    file = tmp_path / "cell.yaml"
    file.write_text(as_yaml(all_conditions(two_arms(), "all")))
    assert yaml.safe_load(file.read_text())["/**"]["ros__parameters"]["cell"]["name"] == "all"
    cell = inline_cell(all_conditions(two_arms(), "all"))
    assert not CellConfig.from_yaml(file).active
    with cell:
        for condition in (*CONDITIONS, PLAIN_CONDITION):
            cell.switch(instances_of(condition), strictness=Strictness.FORCE_AUTO)
            cell.step(5)
            assert set(cell.active) == set(instances_of(condition))


def test_times_of_cycle_parts_and_speed_are_measured():
    with inline_cell(row_of_arms(1, ())) as cell:
        found = measure(parts_of(cell), 1, 20)
        assert set(found) == {"models", "reading", "physics", "whole cycle"}
        assert found["whole cycle"]["median_us"] > found["physics"]["median_us"]
        assert inline_speed(cell, 100) > 0.0
