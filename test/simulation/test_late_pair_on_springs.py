# SPDX-License-Identifier: Apache-2.0
"""Box lift by two arms on springs with additional delay."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from long_form import LONG

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig

pytestmark = pytest.mark.inline

EXAMPLE = Path(__file__).parents[2] / "examples" / "11_lift_a_box_on_springs.py"
PRESETS = (0.0, 0.2, 0.4) if LONG else (0.0,)


@pytest.fixture(scope="module")
def example():
    """Example that lifts a box with two arms without delay."""
    spec = importlib.util.spec_from_file_location("lift_a_box_on_springs", EXAMPLE)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("preset", PRESETS)
def test_arms_lift_box_with_delay_and_lag(example, preset):
    config = example.with_preset(preset).model_dump()
    for arm in config["arms"].values():
        arm["perturbation"] |= {"state_delay": 0.005, "torque_lag": 0.002}
    with Cell(CellConfig.from_dict(config)) as cell:
        reported = example.lift(cell)
        assert [cell.state(arm).fault for arm in cell.arms] == ["", ""]
        forces_before = example.forces(cell)
        cell.step(200)
        assert example.forces(cell) == pytest.approx(
            forces_before, abs=0.05
        )  # The force does not oscillate.
    height, *forces = (float(number) for number in re.findall(r"[\d.]+", reported))
    assert height == pytest.approx(0.046, abs=0.003)
    assert forces == pytest.approx([25.0, 25.0], abs=0.2)
