# SPDX-License-Identifier: Apache-2.0
"""Calibration of a twin against a plant with known errors, by the command."""

from __future__ import annotations

import json
import shutil
from importlib import import_module

import numpy as np
import pytest
import yaml
from measured_arm import some_motion

from multipanda_py.apps.cli import main
from multipanda_py.apps.commands.command_line import INTERRUPTED
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.identification.calibration import contact_parameters as surface
from multipanda_py.identification.validation.record import TaskCell
from multipanda_py.robots import ArmDescription
from multipanda_py.targets import TRAJECTORY_POINTS

COMMAND = import_module("multipanda_py.apps.commands.calibrate")
pytestmark = [pytest.mark.sim, pytest.mark.inline, pytest.mark.timeout(600)]

SPEC = {
    "seed": 3,
    "arms": {
        "all": {
            "perturbation": {
                "link_mass": {"range": [0.8, 1.2]},
                "link_com": {"range": [-0.01, 0.01]},
                "coulomb": {"range": [0.1, 0.4]},
                "viscous": {"range": [0.1, 0.5]},
                "friction_offset": {"range": [-0.1, 0.1]},
            },
            "noise": {"tau": 0.03, "tau_bias": {"range": [-0.1, 0.1]}},
        }
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Refine a twin with few iterations; the command is interrupted and resumed."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    arguments = ["config/dual_sim.yaml", "-o", f"{folder}/plant.yaml"]
    assert main(["perturb", *arguments, "--spec", f"{folder}/spec.yaml"]) == 0
    motion = some_motion(ArmDescription("left"), 2, period=8.0, size=0.6)
    motion = FourierMotion(motion.a, motion.b, motion.q0, motion.period)
    head = ["time", *(f"{what}{k + 1}" for what in ("q", "dq", "ddq") for k in range(7))]
    table = motion.table(motion.points(TRAJECTORY_POINTS))
    np.savetxt(folder / "motion.csv", table, delimiter=",", header=",".join(head), comments="")
    arguments = [
        "--plant", f"{folder}/plant.yaml", "--twin", "config/dual_sim.yaml", "--task", "1",
        "--task", "4", "--seconds", "1.2", "--rounds", "1", "-o", f"{folder}/refined",
        "--motion", f"left={folder}/motion.csv",
    ]  # fmt: skip
    runs, reported = [], []

    def recorded(box, seed, run=TaskCell.run):
        arms = tuple(arm.model_dump_json() for arm in box.config.arms.values())
        runs.append((type(box.task), arms, str(box.config.objects.get("table")), seed))
        return run(box, seed)

    def cut_off(text):
        reported.append(text)
        if text.startswith("round 1: left: filtering"):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "MAX_ITERATIONS", 2)
        patch.setattr(TaskCell, "run", recorded)
        patch.setattr(COMMAND, "complain", cut_off)
        assert main(["calibrate", *arguments]) == INTERRUPTED
        assert not (folder / "refined").exists()
        patch.setattr(COMMAND, "complain", reported.append)
        assert main(["calibrate", *arguments, "--repeats", "2"]) == 1
        assert main(["calibrate", *arguments]) == 0
    (folder / "said.json").write_text(json.dumps({"said": reported, "runs": runs}, default=str))
    return folder / "refined"


@pytest.mark.long
def test_interrupted_refinement_lost_finished_runs(folder, capsys):
    """Tasks and motions were repeated, also those of a real arm."""
    log = json.loads((folder.parent / "said.json").read_text())
    kept = "finished parts are kept in"
    assert sum(kept in text for text in log["said"]) == 1
    # 2 tasks of each cell, and a motion
    assert any(text.startswith("5 runs ") for text in log["said"])
    runs = [json.dumps(run) for run in log["runs"]]
    assert sorted(set(runs)) == sorted(runs)


@pytest.mark.long
def test_refinement_improves_score_and_halves_force_error(folder):
    reported = json.loads((folder / "report.json").read_text())
    before, after = reported["rounds"]
    assert after["score"] < 0.6 * before["score"]
    free, circle = reported["gains"]
    measured = circle["rmse"]["measured minus true force [N]"]
    assert measured["identified"] < 0.5 * measured["data sheet"]
    estimated = free["rmse"]["false contact torque [Nm]"]
    # Neither model knows the static friction of joints at rest.
    assert estimated["identified"] < 1.2 * estimated["data sheet"]
    held_out = after["held_out_rmse"]["left"]
    assert (np.array(held_out["consistent"]) < held_out["datasheet"]).all()


@pytest.mark.slow
def test_output_folder_is_complete_and_can_be_moved(folder, tmp_path):
    names = {"plant.yaml", "report.html", "report.json", "robot_left.yaml", "twin.yaml"}
    assert {path.name for path in folder.iterdir()} == names
    assert not list(folder.parent.glob(".*"))
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 3
    assert "http:" not in page  # base64 has no colon
    assert "https:" not in page
    new_folder = tmp_path / "elsewhere"
    shutil.copytree(folder, new_folder)
    twin = CellConfig.from_yaml(new_folder / "twin.yaml")
    robot = new_folder / "robot_left.yaml"
    assert twin.arms["left"].perturbation.parameters == str(robot)
    assert twin.arms["left"].identified == ""
    assert twin.objects["table"].friction != 0.2
    plant = CellConfig.from_yaml(new_folder / "plant.yaml")
    assert plant.arms["left"].identified == str(robot)
    assert plant.arms["left"].perturbation.parameters == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "config"], "--output: config must be a new folder"),
        (["-o", "nowhere/refined"], "must be a new folder in an existing folder"),
        (["--motion", "middle=m.csv"], "allowed ARM=CSV with one of left, right"),
        (["--motion", "left=missing.csv"], "missing.csv: cannot be read"),
        (["--twin", "config/four_arms_sim.yaml"], "twin: lacks the plant's arms left"),
        (["--twin", "config/missing.yaml"], "missing.yaml: cannot be read"),
        (["--seconds", "0.1"], "allowed 0.5 to 600 s"),
    ],
)
def test_invalid_refinement_is_rejected_before_motion(tmp_path, capsys, more, words):
    cell = "config/dual_sim.yaml"
    usual = ["--plant", cell, "--twin", cell, "-o", str(tmp_path / "refined"), "--task", "1"]
    assert main(["calibrate", *usual, *more]) == 1
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
