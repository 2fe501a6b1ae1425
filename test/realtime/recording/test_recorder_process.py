# SPDX-License-Identifier: Apache-2.0
"""Recorder processes beside a loop in real time."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from multipanda_py import Cell
from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LogError, LoopError
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.running_cell import find_running

pytest.importorskip("mcap")
pytestmark = [pytest.mark.sim, pytest.mark.clock]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPANDA_FAULT_LOGS", "on")
    data = CellConfig.from_yaml("config/single_sim.yaml").model_dump()
    data["cell"]["name"] = f"recorded_{os.getpid()}"
    data["recorder"] = {
        "folder": str(tmp_path / "faults"),
        "seconds_before": 1.0,
        "seconds_after": 0.5,
    }
    return CellConfig.from_dict(data)


@pytest.mark.long
def test_killed_recorder_leaves_readable_file_and_running_cell(config, tmp_path):
    with Cell(config) as cell:
        cell.recorder.start(tmp_path / "run.mcap")
        wait_for_size(cell, tmp_path / "run.mcap", 300_000)
        os.kill(cell.recorder.recording.pid, signal.SIGKILL)
        missed = cell.statistics().missed
        with pytest.raises(LogError, match="is incomplete"):
            cell.recorder.stop()
        cell.recorder.start(tmp_path / "again.mcap")
        wait_for_size(cell, tmp_path / "again.mcap", 300_000)
        found = cell.recorder.stop()
        cell.check()
        assert cell.statistics().missed - missed < 500
    assert found.rows > 100
    (log,) = logs.read(tmp_path / "run.mcap").arms.values()
    assert len(log) > 100
    assert "torn" in logs.read(tmp_path / "run.mcap").about


@pytest.mark.long
def test_killed_loop_is_recorded_as_fault(config):
    cell = Cell(config)
    cell.start()
    try:
        cell.wait(lambda: cell.latest_record()["cycle"] > 1500, 60.0, "some rows")
        os.kill(cell.loop_pid, signal.SIGKILL)
        with pytest.raises(LoopError):
            cell.wait(lambda: False, 10.0)
    finally:
        cell.close()
    (path,) = cell.recorder.fault_logs()
    assert "loop_gone" in path.name
    (log,) = logs.read(path).arms.values()
    assert log.time[-1] - log.time[0] == pytest.approx(1.0, abs=0.6)
    assert (np.diff(log.time) > 0.0).all()


@pytest.mark.long
def test_running_cell_is_found_and_recorded_from_outside(config, tmp_path):
    with Cell(config) as cell:
        plan, memory = find_running(cell.config.cell.name)
        assert memory.samefile(cell.records_path)
        assert plan.arms[0].name in cell.arms
        out = tmp_path / "node.mcap"
        name = cell.config.cell.name
        assert main(["record", "--node", name, "-o", str(out), "--duration", "1.5"]) == 0
    assert len(logs.read(out).the_arm()) > 300


def wait_for_size(cell, path, size):
    cell.wait(lambda: path.exists() and path.stat().st_size > size, 60.0, f"{size} bytes")


@pytest.mark.long
def test_arm_follows_motion_file_while_it_is_recorded(tmp_path, capsys):
    own, motion = tmp_path / "cell.yaml", tmp_path / "motion.csv"
    text = Path("config/single_sim.yaml").read_text()
    own.write_text(re.sub(r"(\n +cell:\n +name: )\w+", rf"\g<1>moved_{os.getpid()}", text))
    arm = CellConfig.from_yaml(own).arms
    (name, section), *_ = arm.items()
    steps = np.linspace(0.0, 1.0, 9)[:, None]
    q = np.array(section.q_start) + 0.1 * 0.5 * (1.0 - np.cos(2.0 * np.pi * steps))
    dq = 0.1 * np.pi * np.sin(2.0 * np.pi * steps) * np.ones(7) / 2.0
    ddq = 0.1 * 2.0 * np.pi**2 * np.cos(2.0 * np.pi * steps) * np.ones(7) / 4.0
    names = ["time", *(f"{what}{k + 1}" for what in ("q", "dq", "ddq") for k in range(7))]
    points = np.hstack([2.0 * steps, q, dq, ddq])
    np.savetxt(motion, points, delimiter=",", header=",".join(names), comments="")
    out = tmp_path / "run.mcap"
    assert main(["record", str(own), "--motion", str(motion), "-o", str(out)]) == 0
    log = logs.read(out).arms[name]
    assert log.duration > 2.0
    assert (np.ptp(log.q, axis=0) > 0.08).all()
    motion.write_text("time,q1\n0,0\n")
    capsys.readouterr()
    again = str(tmp_path / "again.mcap")
    assert main(["record", str(own), "--motion", str(motion), "-o", again]) == 1
    assert "finite numbers" in capsys.readouterr().err
