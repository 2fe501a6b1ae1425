# SPDX-License-Identifier: Apache-2.0
"""Outputs of commands: never over an input, and checked before any arm moves."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest

from multipanda_py.apps.cli import main

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.inline
CELL, REAL = "config/single_sim.yaml", "config/dual_real.yaml"
LOG = "time,q1,q2,q3,q4,q5,q6,q7\n0,0,-0.7,0,-2.3,0,1.5,0.7\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name in (CELL, REAL):
        shutil.copy(name, tmp_path / Path(name).name)
    (tmp_path / "run.csv").write_text(LOG)
    (tmp_path / "taken.json").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("perturb single_sim.yaml -o single_sim.yaml", "is also another file of this command"),
        ("perturb single_sim.yaml -o ./single_sim.yaml", "another file of this command"),
        ("perturb single_sim.yaml -o twin.txt", "must be a file .yaml or .yml"),
        ("perturb dual_real.yaml -o twin.yaml", "has no arm with the backend mujoco"),
        ("excite single_sim.yaml -o single_sim.yaml", "another file of this command"),
        ("excite fr33 -o motion.csv", "allowed an existing cell file, or one of fr3"),
        ("excite dual_real.yaml -o motion.csv", "--arm: missing. Name one of left, right"),
        ("identify run.csv -o run.csv", "another file of this command"),
        ("identify run.csv -o robot.yaml --plot robot.yaml", "must be a file .png"),
        ("identify run.csv -o same.png --plot same.png", "another file of this command"),
        ("monitor --learn run.csv --twin single_sim.yaml -o run.csv", "another file of this"),
        ("validate --plant single_sim.yaml --twin single_sim.yaml -o taken.html",
         "taken.json must be a file in an existing folder, but it is a folder"),
        ("record single_sim.yaml -o none/run.mcap", "run.mcap must be a file in an existing"),
        ("plot run.csv -o none/run.png", "must be a file .png or .svg or .pdf in"),
        ("plot run.csv -o run.csv", "must be a file .png"),
        ("record dual_real.yaml -o run.txt", "got suffix '.txt', allowed .mcap"),
    ],
)  # fmt: skip
def test_invalid_output_is_rejected_before_start(files, line, words, capsys):
    """Invalid outputs were overwritten inputs, or errors after minutes of work."""
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    assert main(line.split()) == 1
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 1, reported
    assert words in reported[0]
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


@pytest.fixture
def full_disk():
    """Function that limits files of this process to 500 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "line",
    [
        "perturb single_sim.yaml -o twin.yaml",
        "plot run.csv -o run.png",
        "excite fr3 --evaluations 3 -o motion.csv",
    ],
)
def test_full_disk_is_reported_and_leaves_no_partial_file(files, line, full_disk, capsys):
    before = sorted(files.iterdir())
    full_disk()
    assert main(line.split()) == 1
    assert f"{line.split()[-1]}: cannot be written: " in capsys.readouterr().err
    assert sorted(files.iterdir()) == before
