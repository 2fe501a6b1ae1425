# SPDX-License-Identifier: Apache-2.0
"""Commands ``identify`` and ``excite``: files that a cell reads, and rejected input."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import yaml
from measured_arm import measure, perturbed, some_motion

from multipanda_py.apps.cli import main
from multipanda_py.apps.commands import identify as identify_command
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.realtime.recording import Log
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.measured_files import with_parameters
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

PRIOR = ArmDescription("arm", "fr3")


def write_csv(path, log):
    names = ["time", *(f"{what}{i + 1}" for what in ("q", "dq", "tau") for i in range(7))]
    table = np.column_stack([log.time, log.q, log.dq, log.tau])
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="")


@pytest.fixture(scope="module")
def log():
    plant = perturbed(PRIOR, 4)
    return measure(plant, some_motion(plant, 4), believed=PRIOR, rate=250.0)


@pytest.fixture(scope="module")
def found(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("identified")
    write_csv(folder / "log.csv", log)
    plot = folder / "residuals.png"
    arguments = [str(folder / "log.csv"), "--robot", "fr3", "-o", str(folder / "robot.yaml")]
    assert main(["identify", *arguments, "--plot", str(plot)]) == 0
    assert plot.stat().st_size > 10_000
    return folder / "robot.yaml"


def cell_with(found):
    arm = {"model": {"base": "fr3", "parameters": str(found)}, "backend": "mujoco"}
    return CellConfig.model_validate({"arms": {"left": arm}})


@pytest.mark.long
def test_identified_robot_is_same_in_pinocchio_and_mujoco(found):
    arm = describe_arm("left", cell_with(found).arms["left"])
    reported = yaml.safe_load(found.read_text())
    friction = list(reported["friction"].values())
    world = build_scene([arm]).compile()
    np.testing.assert_allclose(world.dof_frictionloss[:7], friction)
    np.testing.assert_allclose(arm.joint_damping, list(reported["damping"].values()))
    pinocchio = build_pinocchio(arm)
    np.testing.assert_allclose(pinocchio.armature, list(reported["armature"].values()))
    data = mujoco.MjData(world)
    for i in range(1, 7):
        body = reported["links"][f"link{i}"]
        own = world.body(f"left_fr3_link{i}")
        assert own.mass[0] == pytest.approx(body["mass"])
        np.testing.assert_allclose(own.ipos, body["com"], atol=1e-9)
        assert pinocchio.inertias[i].mass == pytest.approx(body["mass"])
        np.testing.assert_allclose(pinocchio.inertias[i].lever, body["com"], atol=1e-9)
    mujoco.mj_forward(world, data)  # at zero command, the offset acts on the joint
    offsets = list(reported["torque_offset"].values())
    np.testing.assert_allclose(data.qfrc_actuator[:7], -np.array(offsets), atol=1e-12)


def test_rejected_log_writes_no_file(log, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    table = np.column_stack([log.time, np.rad2deg(log.q), log.dq, log.tau])
    names = ["time", *(f"{what}{i + 1}" for what in ("q", "dq", "tau") for i in range(7))]
    np.savetxt(bad, table, delimiter=",", header=",".join(names), comments="")
    target = tmp_path / "robot.yaml"
    assert main(["identify", str(bad), "-o", str(target)]) == 1
    assert "degrees" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv"]


@pytest.mark.long
def test_excite_wrote_more_points_than_trajectory_accepts(tmp_path):
    target = tmp_path / "motion.csv"
    arguments = ["fr3", "-o", str(target), "--evaluations", "40", "--seed", "1"]
    assert main(["excite", *arguments]) == 0
    points = np.loadtxt(target, delimiter=",", skiprows=1)
    assert points.shape[1] == 1 + 3 * 7
    np.testing.assert_allclose(points[[0, -1], 8:], 0.0, atol=1e-9)
    slope = np.gradient(points[:, 1:8], points[:, 0], axis=0)
    np.testing.assert_allclose(slope[5:-5], points[5:-5, 8:15], atol=2e-2)
    with simple_cell({"arm": {}}, {"law": {"type": "joint_trajectory"}}, ["arm/law"]) as cell:
        cell.set_target("arm", q=points[0, 1:8])
        cell.step(10_000)
        cell.follow_trajectory("arm", points)


def test_excite_searched_before_check_of_output_folder(tmp_path, capsys):
    target = tmp_path / "none" / "motion.csv"
    assert main(["excite", "fr3", "-o", str(target), "--evaluations", "100000"]) == 1
    reported = capsys.readouterr().err
    assert ".csv or .yaml" in reported
    assert "motions to try" not in reported


@pytest.mark.long
def test_interrupted_excite_reported_that_nothing_was_started(tmp_path):
    """The same applies to ``identify`` and ``sweep``."""
    arguments = ["excite", "fr3", "-o", str(tmp_path / "motion.csv"), "--evaluations", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "multipanda_py.apps.cli", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "motions to try" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.startswith("multipanda excite: ")
    assert "SIGINT" in error
    assert "anything was started" not in error
    assert not list(tmp_path.iterdir())


def test_unphysical_parameter_file_is_rejected(found, tmp_path):
    reported = yaml.safe_load(found.read_text())
    reported["links"]["link3"]["inertia"][0] = 5.0
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(reported))
    with pytest.raises(ConfigurationError, match=r"link3: .*principal moments"):
        with_parameters(MODELS["fr3"], path)
    reported["links"] = {}
    reported["friction"]["joint2"] = -0.1
    path.write_text(yaml.safe_dump(reported))
    with pytest.raises(ConfigurationError, match=r"friction: joint joint2: .*-0\.1\b"):
        with_parameters(MODELS["fr3"], path)
    reported["robot"] = "ur5e"
    path.write_text(yaml.safe_dump(reported))
    with pytest.raises(ConfigurationError, match=r"robot: .*'ur5e'.*'fr3'"):
        with_parameters(MODELS["fr3"], path)


def test_invalid_filter_cutoff_made_noisy_file(log, tmp_path, capsys):
    """A cutoff above the Nyquist frequency of the log selected a wrong filter."""
    run, target = tmp_path / "run.csv", tmp_path / "robot.yaml"
    write_csv(run, log)
    assert main(["identify", str(run), "-o", str(target), "--cutoff", "100"]) == 1
    reported = capsys.readouterr().err
    assert "50 Hz" in reported
    assert main(["identify", str(run), "-o", str(target), "--cutoff", "1e-9"]) == 1
    reported = capsys.readouterr().err  # the filter had a singular matrix
    assert "1e-09 Hz" in reported
    assert not target.exists()


@pytest.mark.long
def test_identified_model_worse_than_datasheet_is_reported(log, tmp_path, capsys, monkeypatch):
    real = identify_command.identify

    def poor(*args, **options):
        found = real(*args, **options)
        held_out = {name: rmse.copy() for name, rmse in found.held_out.items()}
        held_out["consistent"][2] = held_out["datasheet"][2]
        return replace(found, held_out=held_out)

    monkeypatch.setattr(identify_command, "identify", poor)
    run = tmp_path / "run.csv"
    write_csv(run, log)
    assert main(["identify", str(run), "-o", str(tmp_path / "robot.yaml")]) == 0
    assert "torques of joint3 " in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [["--plot", "a.png"], ["--friction", "sigmoid"], ["--held-out", "0.2"]]
)
def test_options_without_effect_on_load_are_rejected(given, capsys):
    assert main(["identify", "none.mcap", "--load", *given]) == 1
    assert f"{given[0]}: " in capsys.readouterr().err


def test_log_of_other_robot_is_rejected(log, tmp_path, capsys, monkeypatch):
    joints = tuple(f"joint{k}" for k in range(1, 8))
    known = ArmLog("left", "fr3", joints, log.time, log.q, log.dq, log.tau)
    monkeypatch.setattr(identify_command, "read", lambda path: Log({"left": known}))
    target = tmp_path / "robot.yaml"
    assert main(["identify", "run.mcap", "--robot", "fer", "-o", str(target)]) == 1
    assert re.search(r"\bleft\b.*\bfr3\b.*\bfer\b", capsys.readouterr().err)
    assert not target.exists()


def test_load_of_cell_file_was_identified_as_last_link(log, tmp_path, capsys, monkeypatch):
    def received(motions, arm, requested, *, load, progress):
        raise ConfigurationError(f"the flange carried {load.mass} kg")

    monkeypatch.setattr(identify_command, "identify", received)
    cell, run = tmp_path / "cell.yaml", tmp_path / "run.csv"
    write_csv(run, log)
    arm = {"model": "fr3", "franka": {"load_mass": 0.8}}
    cell.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"arms": {"a": arm}}}}))
    line = ["identify", str(run), "--cell", str(cell), "-o", str(tmp_path / "robot.yaml")]
    assert main(line) == 1
    assert "0.8 kg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (["--limit-scale", "0.05"], "0.05 of the torque limits"),
        (["--period", "1e9"], "--period, --ramp: got 1e+09"),
        (["--harmonics", "500"], "--harmonics: got 500"),
        (["--mounting", "nan", "0", "0"], "allowed finite angles"),
        (["--arm", "left"], "fr3 is a single arm"),
    ],
)
def test_invalid_excite_options_are_rejected(given, reported, tmp_path, capsys):
    line = ["excite", "fr3", "-o", str(tmp_path / "a.csv"), "--evaluations", "21", *given]
    assert main(line) == 1
    assert reported in capsys.readouterr().err


def test_folder_as_output_is_rejected_before_reading_logs(tmp_path, capsys):
    for given in (["-o", str(tmp_path)], ["-o", "a.yaml", "--plot", str(tmp_path)], ["-o", "."]):
        assert main(["identify", "none.mcap", *given]) == 1
        reported = capsys.readouterr().err
        assert "folder" in reported
        assert ("--plot" if "--plot" in given else "--output") in reported
    assert main(["perturb", "config/single_sim.yaml", "-o", "."]) == 1
    assert "folder" in capsys.readouterr().err
