# SPDX-License-Identifier: Apache-2.0
"""Output, exit codes and one-line errors of the commands."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from long_form import long_form
from repository import ROOT

from multipanda_py import registry
from multipanda_py.apps.cli import COMMANDS, main
from multipanda_py.apps.commands import render
from multipanda_py.apps.commands.render import Demo
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MultipandaError
from multipanda_py.robots import READY_CONFIGURATION as Q_READY
from multipanda_py.simulation.rendering import Renderer
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

DUAL = str(ROOT / "config" / "dual_sim.yaml")
BAD = """/**:
  ros__parameters:
    arms:
      left: {position: [0, 0.5, 0.0], backend: gazebo}
    active: [nobody]
"""


def multipanda(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "multipanda_py.apps.cli", *arguments],
        capture_output=True, text=True, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    return str(file)


@pytest.fixture
def cell_file(tmp_path: Path) -> str:
    """Cell file with a unique name, because another cell may run on this machine."""
    file = tmp_path / "cell.yaml"
    name = f"test_cli_{os.getpid()}"
    file.write_text(Path(DUAL).read_text().replace("name: dual_sim", f"name: {name}"))
    return str(file)


@pytest.fixture(scope="module")
def can_draw() -> None:
    try:
        Renderer(SceneView(CellConfig.from_dict({"arms": {"arm": {}}})).model, 16, 16).close()
    except MultipandaError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_prints_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    assert "usage: multipanda" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    ["", "fly", "run", "run a.yaml b.yaml", "run a.yaml --duration -1", "run a.yaml --duration x",
     "run a.yaml --placement cloud", "check", "list planets", "render", "render a --width 0",
     "render a --height 7", "render a --seconds nan"],
)  # fmt: skip
def test_wrong_usage_exits_with_code_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_check_describes_valid_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DUAL]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{DUAL}: ok: 2 arms (left fr3 mujoco, right fr3 mujoco), 7 controllets")
    note = out.splitlines()[1]
    assert re.match(rf"{re.escape(DUAL)}: note: .*\bcartesian", note)
    assert "joint_trajectory_controller" not in note
    assert out.count("\n") == 2


def test_check_reports_all_faults_of_all_files(
    bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", bad, DUAL, "nothing.yaml"]) == 1
    text = capsys.readouterr()
    lines = text.err.splitlines()
    assert [line.split(": ")[1] for line in lines[:3]] == [
        "arms.left.position", "arms.left.backend", "active"
    ]  # fmt: skip
    assert "0 as 0.0" in lines[0]
    assert re.match(r"nothing\.yaml: .*No such file", lines[3])
    assert text.out.startswith(f"{DUAL}: ok")


def test_list_names_all_plug_ins_with_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for kind in registry.KINDS for name in registry.names(kind))
    assert "N/m, Nm/rad" in out
    assert ":math:" not in out


def test_list_json_has_names_targets_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "controllets", "--json"]) == 0
    outputs = json.loads(capsys.readouterr().out)
    assert list(outputs) == ["controllets"]
    law = next(item for item in outputs["controllets"] if item["name"] == "cartesian_impedance")
    assert law["targets"][:2] == ["pose", "joint"]
    assert law["arms"] == {"min": 1, "max": None}
    stiffness = law["parameters"][0]
    assert (stiffness["name"], stiffness["type"]) == ("stiffness", "6 numbers")
    assert (stiffness["low"], len(stiffness["default"])) == (0, 6)
    assert stiffness["high"] == [5000.0] * 3 + [300.0] * 3


@pytest.mark.slow
def test_list_reports_reason_of_broken_controllet(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-laws\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[multipanda_py.controllets]\nwrong = nowhere:Law\n")
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = multipanda("list", "controllets", PYTHONPATH=path)
    assert done.returncode == 0
    assert re.search("BROKEN: .*'wrong' .*broken-laws", done.stdout)


@pytest.mark.slow
def test_closed_output_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m multipanda_py.apps.cli list | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout == "controllets\n"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.sim
def test_run_inline_reports_and_ends_after_duration(cell_file: str) -> None:
    done = multipanda("run", cell_file, "--placement", "inline", "--duration", "0.5")
    assert done.returncode == 0, done.stderr
    assert "    0.5 s, " in done.stdout
    assert "real-time factor" in done.stdout
    assert "active: left/cartesian_impedance_controller, right/" in done.stdout


def wait_for_cycles(process: subprocess.Popen[str]) -> None:
    """Read the output until the loop runs, after the notes on the cell."""
    assert process.stdout is not None
    assert any("Hz, late p99" in line for line in process.stdout)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    ("placement", "number"),
    long_form(
        itertools.product(["process", "thread"], [signal.SIGINT, signal.SIGTERM]),
        keep=[("process", signal.SIGINT), ("thread", signal.SIGTERM)],
    ),
)
def test_run_ends_cleanly_on_signal(
    cell_file: str, placement: str, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "multipanda_py.apps.cli", "run", cell_file,
         "--placement", placement],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    wait_for_cycles(process)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert "stopped after" in out
    assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.sim
def test_run_reports_signal_that_killed_loop(cell_file: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "multipanda_py.apps.cli", "run", cell_file],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    wait_for_cycles(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "SIGKILL" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["run", "render"])
def test_invalid_file_is_rejected_without_traceback(
    command: str, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, bad]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"multipanda {command}: {bad}: arms.left.position: ")
    assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.usefixtures("can_draw")
@pytest.mark.parametrize("suffix", ["png", "gif", "webp", "mp4"])
def test_render_writes_format_of_suffix(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / f"cell.{suffix}"
    size = ["--width", "64", "--height", "48", "--seconds", "0.1"]
    assert main(["render", DUAL, "-o", str(out), *size]) == 0
    start = {"png": b"\x89PNG", "gif": b"GIF8", "webp": b"RIFF", "mp4": b"\x00\x00\x00"}[suffix]
    assert out.read_bytes().startswith(start)
    assert str(out) in capsys.readouterr().out


@pytest.mark.usefixtures("can_draw")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["-o", "x.bmp"], "the suffix must be .png"), (["--camera", "moon"], "camera 'moon'"),
     (["--width", "20000"], "20000x720 pixels"), (["-o", "/proc/x/y.png"], "/proc/x")],
)  # fmt: skip
def test_render_rejects_invalid_option_in_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["render", DUAL, *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("multipanda render: ")
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_render_reports_disabled_opengl(tmp_path: Path) -> None:
    done = multipanda("render", DUAL, "-o", str(tmp_path / "a.png"), MUJOCO_GL="off")
    assert done.returncode == 1
    assert re.fullmatch("multipanda render: MUJOCO_GL .*'off'.*\n", done.stderr)


def test_render_replaces_real_arms_by_simulated_ones() -> None:
    config = CellConfig.from_dict({"arms": {"a": {}, "b": {"backend": "mock"}}})
    franka = config.arms["a"].model_copy(update={"backend": "franka"})
    real = config.model_copy(update={"arms": config.arms | {"c": franka}})
    drawn = render.with_simulated_arms(real)
    assert {name: arm.backend for name, arm in drawn.arms.items()} == {
        "a": "mujoco", "b": "mock", "c": "mujoco"
    }  # fmt: skip
    assert drawn.cell.placement == "inline"


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    "name", long_form(["single_sim", "dual_sim", "quad_sim"], keep=["dual_sim"])
)
def test_demo_moves_every_arm_and_returns(name: str) -> None:
    config = render.with_simulated_arms(CellConfig.from_yaml(ROOT / "config" / f"{name}.yaml"))
    with Cell(config) as cell:
        start = {arm: cell.pose(arm) for arm in cell.arms}
        demo = Demo(cell, 3.0)
        distance_max = dict.fromkeys(cell.arms, 0.0)
        messages = []
        for number in range(300):
            messages.append(demo.update(number * 0.01))
            cell.step(10)
            for arm in cell.arms:
                distance_max[arm] = max(distance_max[arm], cell.pose(arm).distance(start[arm])[0])
        cell.step(500)
        assert all(0.03 < distance < 0.13 for distance in distance_max.values()), distance_max
        assert sum(bool(text) for text in messages) == 1
        assert not [event for event in cell.events() if event.event.is_fault]
        for arm in cell.arms:
            assert cell.pose(arm).distance(start[arm])[0] < 0.02
            assert np.abs(cell.state(arm).dq).max() < 0.05


def test_render_is_reproducible() -> None:
    config = render.with_simulated_arms(CellConfig.from_yaml(DUAL))
    outputs = []
    for _ in range(2):
        view = SceneView(config)
        for _ in render.simulate_frames(config, 0.3, 20.0, True, view):
            last = view.data.qpos.copy()
        outputs.append(last)
    np.testing.assert_array_equal(*outputs)


def test_version_command_ends_within_10_s() -> None:
    began = time.monotonic()
    assert multipanda("--version").returncode == 0
    assert time.monotonic() - began < 10


def test_delay_margin_of_damping_matches_nyquist_without_robot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damping with a known rate has the analytical delay margin of an integrator."""
    file = tmp_path / "cell.yaml"
    file.write_text(
        """/**:
  ros__parameters:
    cell: {name: margins}
    arms:
      left: {backend: franka, robot_ip: 10.0.0.1}
    controllets:
      float: {type: gravity_compensation, params: {joint_damping: 5.0}}
      osc: {type: operational_space, features: [''], params: {stiffness: [400.0, 400.0, 400.0,
        400.0, 400.0, 400.0]}}
"""
    )
    arguments = [
        "delay-margin",
        str(file),
        "--controllet",
        "left/float",
        "--controllet",
        "left/osc",
    ]
    assert main([*arguments, "--json", "--lag", "0", "--inertia", "1"]) == 0
    damped, osc = json.loads(capsys.readouterr().out)
    state = StateMaker().states_at([np.array(Q_READY)])[0]
    fastest = 5.0 * np.linalg.eigvalsh(np.linalg.inv(state.mass_matrix))[-1]
    assert damped["bandwidth"] == pytest.approx(fastest, rel=1e-4)
    # Margin of an integrator with gain b: (pi / 2) / b, less half a sampling period.
    expected = 1e3 * np.pi / 2 / fastest - 0.5
    assert damped["delay_margin_ms"] == pytest.approx(expected, abs=1.0)
    assert osc["bandwidth"] == pytest.approx(40.0, rel=1e-4)
    assert main([*arguments, "--random", "2", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\b2 ms\b.*\b0\.8 ", out)
    assert "left/osc" in out


def test_delay_margin_reports_delay_of_topic_backend(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command over topics acts one period after its state: 2 ms at 500 Hz."""
    cell = str(Path(DUAL).with_name("ur5e_ros2_control.yaml"))
    arguments = ["delay-margin", cell, "--controllet", "ur/joint_impedance_controller"]
    assert main([*arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["taken_ms"] == pytest.approx(2.0)
    assert row["delay_margin_ms"] > 2.0 * row["taken_ms"]
    assert main(arguments) == 0
    assert re.search(r"\bbackend\b.*\b2\.0 ms", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--controllet", "left/none"], "'left/none'.*left/hold"),
        (["--configuration", *["9"] * 7], r"--configuration: joint 1 .*\b9 rad\b.*\[-2\.7"),
    ],
)
def test_invalid_delay_margin_request_is_rejected_in_one_line(
    more: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delay-margin", DUAL, *more]) == 1
    error = capsys.readouterr().err
    assert re.search(reason, error)
    assert error.count("\n") == 1
