# SPDX-License-Identifier: Apache-2.0
"""Shipped arms with one, two and five compliant joints rest, also after a push."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig

pytestmark = pytest.mark.inline

FOLDER = Path(__file__).parents[2] / "config" / "compliant"
CELLS = {"one_joint": "link_1", "two_joints": "link_2", "five_joints": "link_4"}


def test_cells_are_complete():
    assert {file.stem for file in FOLDER.glob("*_joint*.yaml") if "extra" not in file.stem} == {
        *CELLS
    }


@pytest.mark.sim
@pytest.mark.parametrize("name", CELLS)
def test_arm_returns_to_rest_after_push(name):
    with Cell.from_yaml(FOLDER / f"{name}.yaml", placement="inline") as cell:
        assert cell.config.cell.name == name
        start = cell.state("arm").q.copy()
        cell.step(100)
        np.testing.assert_allclose(cell.state("arm").q, start, atol=1e-6)
        cell.simulation.apply_wrench(f"arm_{name}_{CELLS[name]}", [0.4, 0.2, 0.0])
        cell.step(200)
        assert np.abs(cell.state("arm").q - start).max() > 1e-3
        cell.simulation.apply_wrench(f"arm_{name}_{CELLS[name]}")
        cell.step(600)
        assert not cell.state("arm").fault
        np.testing.assert_allclose(cell.state("arm").q, start, atol=0.01)
        np.testing.assert_allclose(cell.state("arm").dq, 0.0, atol=0.01)


def test_every_controllet_runs_on_arm_with_one_joint():
    """Pinocchio returns a vector for one joint, which stopped controllets at their start."""
    config = CellConfig.from_yaml(FOLDER / "one_joint.yaml").model_dump()
    laws = [law for law in registry.built_in("controllets") if law != "hold"]
    alone = [law for law in laws if registry.find("controllets", law).min_arms == 1]
    config["controllets"] = {f"{law}_law": {"type": law} for law in alone}
    config["cell"]["placement"] = "inline"
    config["active"] = []
    with Cell(CellConfig.from_dict(config)) as cell:
        for law in alone:
            cell.switch([f"arm/{law}_law"], strictness="force_auto")
            cell.step(10)
            assert f"arm/{law}_law" in cell.active
        assert not [event for event in cell.events() if event.event.is_fault]
