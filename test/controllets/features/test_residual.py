# SPDX-License-Identifier: Apache-2.0
"""Learned residual compensation on its training plant, and with wrong weights."""

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
AMPLITUDE = np.array([0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4])


def plant(file=None, **params):
    """Return the shipped plant under a joint controllet, with its residual if given."""
    data = yaml.safe_load((FOLDER / "plant.yaml").read_text())["/**"]["ros__parameters"]
    data["cell"]["placement"] = "inline"
    features = ["coriolis"] + ["residual"] * (file is not None)
    law = {"type": "joint_impedance", "features": features}
    if file is not None:
        data["arms"]["arm"]["residual"] = {"torque": str(file)}
        law["params"] = {"residual": params}
    data |= {"controllets": {"law": law}, "active": ["arm/law"], "objects": {}}
    return Cell(CellConfig.from_dict(data))


def error_after_swing(cell):
    """Return the joint errors at rest after a swing [rad], and the speed there."""
    start, speed = cell.state("arm").q.copy(), []
    for step in range(400):
        fraction = np.sin(2.0 * np.pi * min(step, 200) / 200.0)
        cell.set_target("arm", q=start + AMPLITUDE * fraction)
        cell.step(10)
        if step > 350:
            speed.append(np.abs(cell.state("arm").dq).max())
    assert cell.state("arm").fault == ""
    assert cell.events() == []
    return np.abs(cell.state("arm").q - start), max(speed)


def scaled(path, factor):
    """Write the shipped weights, dense layer and bodies, multiplied by a factor."""
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
def uncompensated():
    with plant() as cell:
        return error_after_swing(cell)[0]


@pytest.mark.slow
def test_residual_reduces_error_at_rest(uncompensated):
    with plant(WEIGHTS) as cell:
        error, speed = error_after_swing(cell)
    assert uncompensated[[1, 3]].min() > 0.5e-3
    assert error[[1, 3]].max() < 0.2e-3
    assert np.linalg.norm(error) < 0.6 * np.linalg.norm(uncompensated)
    assert speed < 0.01  # its velocities are noisy: 0.001 rad/s


def test_inverted_residual_increases_error(uncompensated, tmp_path):
    with plant(scaled(tmp_path / "wrong.npz", -1.0)) as cell:
        error, _ = error_after_swing(cell)
    assert np.linalg.norm(error[[1, 3]]) > 1.5 * np.linalg.norm(uncompensated[[1, 3]])


def test_tripled_loss_residual_does_not_move_arm(tmp_path):
    trained = load_residual(WEIGHTS)
    arrays = dict(trained.arrays)
    for name in ("dense.weight", "dense.bias"):
        arrays[name] = 3.0 * arrays[name]
    replace(trained, arrays=arrays, bodies=None, bound=3.0 * trained.bound).save(
        tmp_path / "much.npz"
    )
    with plant(tmp_path / "much.npz") as cell:
        _, speed = error_after_swing(cell)
        assert speed < 0.02


def test_residual_is_bounded_and_starts_at_zero(tmp_path):
    file = scaled(tmp_path / "strong.npz", 20.0)
    with plant(file, max_torque=[0.5] * 7, scale=0.9) as cell, plant() as beside:
        apart = []
        for step in range(120):
            for one in (cell, beside):
                one.step(10)
            added = cell.state("arm").tau - beside.state("arm").tau
            apart.append(np.abs(added).max())
            if step < 50:
                assert apart[-1] < 1e-9, step  # the network only observes at first
        assert max(apart) > 0.3


def test_missing_or_foreign_residual_file_prevents_start(tmp_path):
    data = plant(WEIGHTS).config.model_dump()
    data["arms"]["arm"]["residual"] = {"torque": ""}
    with pytest.raises(MultipandaError, match=r"\barms\.arm\.residual\.torque"):
        Cell(CellConfig.from_dict(data)).start()
    replace(load_residual(WEIGHTS), robot="ur5e").save(tmp_path / "other.npz")
    with pytest.raises(MultipandaError, match=r"arm\.residual\.torque: .*\bur5e\b"):
        plant(tmp_path / "other.npz").start()
