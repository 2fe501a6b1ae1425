# SPDX-License-Identifier: Apache-2.0
"""Compensation of what was learned, on the plant of which it was, and with wrong weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MultipandaError
from multipanda_py.robots.residual.weights import load_residual

pytestmark = [pytest.mark.sim, pytest.mark.inline]
FOLDER = Path(__file__).parents[3] / "config" / "residual"
WEIGHTS = FOLDER / "plant.npz"
WAY = np.array([0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4])


def plant(file=None, **params):
    """Return the shipped plant under a joint law, with what was learned of it."""
    data = yaml.safe_load((FOLDER / "plant.yaml").read_text())["/**"]["ros__parameters"]
    data["cell"]["placement"] = "inline"
    features = ["coriolis"] + ["residual"] * (file is not None)
    law = {"type": "joint_impedance", "features": features}
    if file is not None:
        data["arms"]["arm"]["residual"] = {"torque": str(file)}
        law["params"] = {"residual": params}
    data |= {"controllets": {"law": law}, "active": ["arm/law"], "objects": {}}
    return Cell(CellConfig.from_dict(data))


def off_after_a_swing(cell):
    """Return how far joints are off where they come to rest after a swing [rad], and how fast."""
    start, speed = cell.state("arm").q.copy(), []
    for step in range(400):
        share = np.sin(2.0 * np.pi * min(step, 200) / 200.0)
        cell.set_target("arm", q=start + WAY * share)
        cell.step(10)
        if step > 350:
            speed.append(np.abs(cell.state("arm").dq).max())
    assert cell.state("arm").fault == ""
    assert cell.events() == []
    return np.abs(cell.state("arm").q - start), max(speed)


def scaled(path, factor):
    """Write the shipped weights with all that they say multiplied, and no body."""
    trained = load_residual(WEIGHTS)
    arrays = dict(trained.arrays)
    for name in ("dense.weight", "dense.bias"):
        arrays[name] = factor * arrays[name]
    parts = {**trained.bodies.parts, "parameters": factor * trained.bodies.parts["parameters"]}
    bodies = type(trained.bodies).of_parts(parts)
    bound = abs(factor) * trained.bound
    replace(trained, arrays=arrays, bodies=bodies, bound=bound).save(path)
    return path


@pytest.fixture(scope="module")
def without():
    with plant() as cell:
        return off_after_a_swing(cell)[0]


@pytest.mark.slow
def test_what_was_learned_carries_the_arm_to_where_it_is_to_be(without):
    with plant(WEIGHTS) as cell:
        off, speed = off_after_a_swing(cell)
    assert without[[1, 3]].min() > 0.5e-3
    assert off[[1, 3]].max() < 0.2e-3
    assert np.linalg.norm(off) < 0.6 * np.linalg.norm(without)
    assert speed < 0.01  # its velocities are noisy: 0.001 rad/s


def test_the_wrong_way_round_it_makes_things_worse(without, tmp_path):
    with plant(scaled(tmp_path / "wrong.npz", -1.0)) as cell:
        off, _ = off_after_a_swing(cell)
    assert np.linalg.norm(off[[1, 3]]) > 1.5 * np.linalg.norm(without[[1, 3]])


def test_three_times_the_losses_do_not_move_an_arm_alone(tmp_path):
    trained = load_residual(WEIGHTS)
    arrays = dict(trained.arrays)
    for name in ("dense.weight", "dense.bias"):
        arrays[name] = 3.0 * arrays[name]
    replace(trained, arrays=arrays, bodies=None, bound=3.0 * trained.bound).save(
        tmp_path / "much.npz"
    )
    with plant(tmp_path / "much.npz") as cell:
        _, speed = off_after_a_swing(cell)
        assert speed < 0.02


def test_it_never_adds_more_than_its_bound_and_begins_with_nothing(tmp_path):
    file = scaled(tmp_path / "strong.npz", 20.0)
    with plant(file, max_torque=[0.5] * 7, scale=0.9) as cell, plant() as beside:
        apart = []
        for step in range(120):
            for one in (cell, beside):
                one.step(10)
            added = cell.state("arm").tau - beside.state("arm").tau
            apart.append(np.abs(added).max())
            if step < 50:
                assert apart[-1] < 1e-9, step  # the network looks on
        assert max(apart) > 0.3


def test_without_a_file_or_with_another_robots_the_cell_does_not_start(tmp_path):
    data = plant(WEIGHTS).config.model_dump()
    data["arms"]["arm"]["residual"] = {"torque": ""}
    with pytest.raises(MultipandaError, match=r"\barms\.arm\.residual\.torque"):
        Cell(CellConfig.from_dict(data)).start()
    replace(load_residual(WEIGHTS), robot="ur5e").save(tmp_path / "other.npz")
    with pytest.raises(MultipandaError, match=r"arm\.residual\.torque: .*\bur5e\b"):
        plant(tmp_path / "other.npz").start()
