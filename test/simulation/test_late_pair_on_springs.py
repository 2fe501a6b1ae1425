# SPDX-License-Identifier: Apache-2.0
"""Two arms on springs that are late, too, lift a box between them."""

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
    """The example that lifts a box by two arms that are not late."""
    spec = importlib.util.spec_from_file_location("lift_a_box_on_springs", EXAMPLE)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("preset", PRESETS)
def test_they_lift_it_with_5_ms_of_delay_and_2_ms_of_lag_beside_that_of_their_motors(
    example, preset
):
    config = example.with_preset(preset).model_dump()
    for arm in config["arms"].values():
        arm["perturbation"] |= {"state_delay": 0.005, "torque_lag": 0.002}
    with Cell(CellConfig.from_dict(config)) as cell:
        reported = example.lift(cell)
        assert [cell.state(arm).fault for arm in cell.arms] == ["", ""]
        pressed = example.forces(cell)
        cell.step(200)
        assert example.forces(cell) == pytest.approx(pressed, abs=0.05)  # it does not swing
    height, *forces = (float(number) for number in re.findall(r"[\d.]+", reported))
    assert height == pytest.approx(0.046, abs=0.003)
    assert forces == pytest.approx([25.0, 25.0], abs=0.2)
