# SPDX-License-Identifier: Apache-2.0
"""Every shipped cell file is valid, and its simulated arms start at rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from long_form import LONG

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.events import Event

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

FILES = sorted((Path(__file__).parents[2] / "config").glob("*.yaml"))
SIMULATED = [file for file in FILES if file.stem.endswith("_sim")]
SECONDS = 2.0 if LONG else 0.5


def test_cells_of_one_two_and_four_arms_are_shipped() -> None:
    sizes = {file.stem: len(CellConfig.from_yaml(file).arms) for file in SIMULATED}
    assert {"single_sim": 1, "dual_sim": 2, "quad_sim": 4}.items() <= sizes.items()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_file_is_valid_and_names_its_cell(file: Path) -> None:
    assert CellConfig.from_yaml(file).cell.name == file.stem


def features_of(cell: Cell, arm: str) -> set[str]:
    active = (spec for spec in cell.specs if spec.name in cell.active and arm in spec.config.arms)
    return {name for spec in active for name in spec.features}


@pytest.fixture(scope="module", params=SIMULATED, ids=lambda file: file.stem)
def simulated(request: pytest.FixtureRequest) -> Iterator[Cell]:
    """A shipped cell; the first test resets it to the start of the file."""
    with Cell.from_yaml(request.param, placement="inline") as cell:
        yield cell


@pytest.mark.sim
def test_simulated_cell_is_at_rest(simulated: Cell) -> None:
    cell = simulated
    cell.simulation.reset()
    cell.step(1)
    start = {arm: cell.state(arm) for arm in cell.arms}
    scene_objects = cell.objects()
    assert set(cell.active) >= set(cell.config.active)
    cell.step(round(SECONDS * cell.config.cell.rate))
    idle = [
        f"{arm}: the tool pose determines all 6 joints, so nullspace acts only near singular "
        "configurations"
        for arm in cell.arms
        if cell.state(arm).q.size == 6 and "nullspace" in features_of(cell, arm)
    ]
    assert [(event.event, event.text) for event in cell.events()] == [
        (Event.NOTICE, text) for text in idle
    ]
    for arm in cell.arms:
        state = cell.state(arm)
        assert state.fault == ""
        np.testing.assert_allclose(state.q, start[arm].q, atol=1e-4)
        np.testing.assert_allclose(state.dq, 0.0, atol=1e-4)
        np.testing.assert_allclose(state.tau_ext, 0.0, atol=1e-2)
    for name, pose in cell.objects().items():
        assert pose.distance(scene_objects[name])[0] < 1e-3, name


@pytest.mark.sim
def test_every_controllet_of_cell_can_be_activated(simulated: Cell) -> None:
    cell = simulated
    for spec in cell.specs:
        if not spec.is_hold:
            if spec.name not in cell.active:
                cell.switch([spec.name], strictness="force_auto")
            cell.step(50)
            assert spec.name in cell.active
    assert not any(cell.state(arm).fault for arm in cell.arms)
    assert all(np.abs(cell.state(arm).dq).max() < 1e-3 for arm in cell.arms)
