# SPDX-License-Identifier: Apache-2.0
"""``multipanda task``: progress, exit codes, and one-line errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from repository import CONFIG

from multipanda_py.apps.cli import main

EXAMPLE = CONFIG / "tasks" / "carry_box.yaml"


def approach_task(tmp_path, *changes):
    """Write a task file with only the approach of the example; return its path."""
    text = EXAMPLE.read_text().replace("../box_task_sim.yaml", str(CONFIG / "box_task_sim.yaml"))
    text = text[: text.index("  - name: squeeze")].replace("duration: 1.5", "duration: 0.4")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "task.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.inline
@pytest.mark.sim
def test_task_reports_progress(tmp_path, capsys):
    assert main(["task", approach_task(tmp_path), "--lockstep"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("carry_box: 1 of 1 subtasks checked in ")
    assert "started: carry_box" in lines[1]
    assert any("approach: planned: solved" in line for line in lines)
    assert lines[-1].endswith("done")


@pytest.mark.inline
@pytest.mark.sim
def test_failed_task_reports_reason_and_hold(tmp_path, capsys):
    file = approach_task(tmp_path, ("approach_distance: 0.015", "approach_distance: 0.5"))
    assert main(["task", file, "--lockstep", "--no-check"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("multipanda task: approach: ")
    assert "no path" in line
    assert line.endswith("all arms hold")


@pytest.mark.inline
@pytest.mark.sim
def test_task_report_has_every_subtask_and_images(tmp_path, capsys):
    folder = tmp_path / "report"
    assert main(["task", approach_task(tmp_path), "--lockstep", "--report", str(folder)]) == 0
    found = json.loads((folder / "measures.json").read_text())
    (approach,) = found["subtasks"]
    assert found["state"] == "done"
    assert approach["name"] == "approach"
    assert approach["mode"] == "optimization"
    assert 0.4 <= approach["duration"] < 0.7
    assert approach["force_rmse"] is None  # the approach has no contact
    assert "| approach | optimization |" in (folder / "measures.md").read_text()
    for name in ("forces.png", "ways.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert "forces.png" in capsys.readouterr().out


@pytest.mark.inline
def test_ablation_without_lockstep_is_refused(tmp_path, capsys):
    assert main(["task", approach_task(tmp_path), "--ablate", "force"]) == 1
    assert "--ablate: needs --lockstep" in capsys.readouterr().err


@pytest.mark.inline
def test_task_file_is_checked_without_motion(tmp_path, capsys):
    assert main(["task", approach_task(tmp_path), "--check"]) == 0
    assert "1 of 1 subtasks" in capsys.readouterr().out
    assert main(["task", approach_task(tmp_path), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["refused"] == ""
    assert [(one["subtask"], one["is_checked"]) for one in found["subtasks"]] == [
        ("approach", True)
    ]


@pytest.mark.inline
@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (
            ("controllet: augmented", "controllet: other"),
            "controllet: got 'other', allowed augmented",
        ),
        (("side: +y", "side: +w"), "contacts.sides.side: got '+w'"),
        ((str(CONFIG / "box_task_sim.yaml"), '""'), "cell: missing"),
    ],
)
def test_invalid_task_is_reported_in_one_line(tmp_path, capsys, change, reported):
    assert main(["task", approach_task(tmp_path, change), "--check"]) == 1
    assert reported in capsys.readouterr().err


@pytest.mark.inline
def test_missing_file_is_reported_in_one_line(tmp_path, capsys):
    assert main(["task", str(tmp_path / "none.yaml")]) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.clock
@pytest.mark.sim
def test_interrupted_task_ends_in_hold(tmp_path):
    """The loop runs in a separate process, as for a real cell."""
    cell = tmp_path / "cell.yaml"
    text = (CONFIG / "box_task_sim.yaml").read_text()
    cell.write_text(text.replace("name: box_task_sim", f"name: test_task_{os.getpid()}"))
    command = [
        sys.executable,
        "-m",
        "multipanda_py.apps.cli",
        "task",
        approach_task(tmp_path, ("duration: 0.4", "duration: 20.0")),
        "--cell",
        str(cell),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as task:
        assert task.stdout is not None
        assert task.stderr is not None
        for line in task.stdout:
            if "planned" in line:
                task.send_signal(signal.SIGTERM)
                break
        rest, reported = task.stdout.read(), task.stderr.read()
        assert task.wait(30) == 143
    assert "approach: aborted: closed" in rest
    assert "SIGTERM" in reported
