# SPDX-License-Identifier: Apache-2.0
"""Commands for validation, recording and identification of a robot with the real driver."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pytest
import yaml

from multipanda_py.apps.cli import main
from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.robots import MODELS

pytest.importorskip("pylibfranka")
pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.clock]
READY = np.array(MODELS["fr3"].ready)


def write_cell(path, placement, arm, **more):
    name = f"{path.stem}_{uuid.uuid4().hex[:8]}"
    cell = {"cell": {"name": name, "placement": placement}, "arms": {"arm": arm}, **more}
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": cell}}))
    return str(path)


@pytest.fixture
def cells(lockstep, tmp_path):
    """Return the files of a cell with a simulated robot and driver, and of its twin."""
    _, addresses = lockstep
    settings = {"answer_budget": 0.4, "priority": 0}
    plant = write_cell(
        tmp_path / "plant.yaml", "process",
        {"backend": "franka", "robot_ip": addresses[0], "franka": settings},
        controllets={"move": {"type": "joint_trajectory"}}, active=["arm/move"],
        realtime={"priority": 0, "cpu": -2},
    )  # fmt: skip
    return plant, write_cell(tmp_path / "twin.yaml", "inline", {"backend": "mujoco"})


@pytest.mark.long
def test_validation_compares_plant_and_twin_at_equal_times(cells, tmp_path):
    """The start of the robot log at power-on caused differences of 0.35 rad."""
    pytest.importorskip("matplotlib")
    plant, twin = cells
    page = tmp_path / "report.html"
    arguments = ["--task", "1", "--repeats", "1", "--seconds", "2", "-o", str(page)]
    assert main(["validate", "--plant", plant, "--twin", twin, *arguments]) == 0
    (task,) = json.loads(page.with_suffix(".json").read_text())["tasks"]
    assert task["faults"] == []
    assert task["worst"]["q"] < 0.02
    assert task["worst"]["tau"] < 1.0
    assert task["worst"]["control error"] < 0.1


@pytest.mark.long
def test_robot_motion_is_recorded_and_identified(cells, tmp_path, capsys):
    plant, twin = cells
    rng = np.random.default_rng(0)
    motion = FourierMotion(*(0.25 * rng.normal(size=(2, 7, 5))), READY, 6.0, 1.0)
    time = motion.points(120)
    names = ["time", *(f"{what}{k + 1}" for what in ("q", "dq", "ddq") for k in range(7))]
    table = np.column_stack([time, *motion.sample(time)])
    points, log, robot = (tmp_path / name for name in ("motion.csv", "run.mcap", "robot.yaml"))
    np.savetxt(points, table, delimiter=",", header=",".join(names), comments="")
    assert main(["record", plant, "--motion", str(points), "-o", str(log)]) == 0
    assert "cycle records, 0 lost" in capsys.readouterr().out
    assert main(["identify", str(log), "--cell", twin, "--arm", "arm", "-o", str(robot)]) == 0
    assert "held_out_rmse" in robot.read_text()
