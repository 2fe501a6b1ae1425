# SPDX-License-Identifier: Apache-2.0
"""Faults and full disks while a paced cell runs: the loop continues and the error is reported."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess

import numpy as np
import pytest

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LogError
from multipanda_py.realtime import recording as logs

pytest.importorskip("mcap")
pytestmark = [pytest.mark.sim, pytest.mark.clock]
BEFORE, AFTER = 1.0, 0.5
TIGHT, WIDE = [1.0] * 7, [80.0] * 7


def config_in(folder):
    """Return a cell of an arm with an undeclared payload of 0.5 kg; tight thresholds stop it."""
    data = CellConfig.from_yaml("config/single_sim.yaml").model_dump()
    data["cell"]["name"] = f"beside_{os.getpid()}"
    data["recorder"] = {"folder": str(folder), "seconds_before": BEFORE, "seconds_after": AFTER}
    data["arms"]["arm"] |= {
        "perturbation": {"payload": 0.5}, "franka": {"upper_torque_thresholds": WIDE},
    }  # fmt: skip
    data["active"] = []
    return CellConfig.from_dict(data)


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 3 MB, if permitted."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount_point)]
    if os.geteuid() != 0 or subprocess.run(line, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield mount_point
    subprocess.run(["umount", "-l", str(mount_point)], check=True)


def break_down(cell):
    """Stop the arm at a threshold and recover it."""
    faults = cell.latest_record()["arms"]["fault"][0]
    assert not faults
    with contextlib.suppress(Exception):  # the arm may stop before it answers
        cell.set_robot_settings("arm", upper_torque_thresholds=TIGHT)
    cell.wait(lambda: cell.latest_record()["arms"]["fault"][0] != 0, 20.0, "a fault")
    since = cell.latest_record()["time"]
    cell.wait(
        lambda: cell.latest_record()["time"] > since + AFTER + 0.2, 60.0, "the time after it"
    )
    cell.set_robot_settings("arm", upper_torque_thresholds=WIDE)
    cell.recover()


@pytest.mark.slow
def test_seconds_around_live_fault_are_recorded(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("MULTIPANDA_FAULT_LOGS", "on")
    with Cell(config_in(tmp_path / "faults")) as cell:
        cell.wait(lambda: cell.latest_record()["time"] > BEFORE + 0.5, 60.0, "some rows")
        break_down(cell)
        cell.wait(lambda: len(cell.recorder.fault_logs()) == 1, 30.0, "its log")
        again = cell.latest_record()["time"]
        cell.wait(lambda: cell.latest_record()["time"] > again + BEFORE + AFTER, 60.0, "more rows")
        break_down(cell)
        cell.wait(lambda: len(cell.recorder.fault_logs()) == 2, 30.0, "another log")
        cell.check()
    paths = cell.recorder.fault_logs()
    assert all("_arm_" in path.name for path in paths)
    for path in paths:
        log = logs.read(path)
        arm = log.arms["arm"]
        begin = float(arm.time[np.flatnonzero(arm.columns["fault"])[0]])
        # The limits are wide because the loop of a busy machine may lag and catch up.
        assert 0.4 * BEFORE < begin - arm.time[0] < 2.0 * BEFORE
        assert 0.4 * AFTER < arm.time[-1] - begin < 2.0 * AFTER
        assert any("reflex" in mark.text for mark in log.marks if mark.kind == "event")
        assert log.about["cell"].startswith("beside_")
    assert str(paths[0]) in capfd.readouterr().err


@pytest.mark.long
def test_full_disk_ends_recording_and_written_part_is_readable(small_disk):
    with Cell(config_in(small_disk)) as cell:
        cell.recorder.start(small_disk / "run.mcap")
        recording = cell.recorder.recording
        cell.wait(lambda: not recording.is_alive, 60.0, "the end of the recorder")
        before = cell.latest_record()["cycle"]
        with pytest.raises(LogError, match=rf"run\.mcap: {os.strerror(errno.ENOSPC)}"):
            cell.recorder.stop()
        cell.wait(
            lambda: cell.latest_record()["cycle"] > before + 200, 60.0, "a loop that goes on"
        )
        cell.check()
        (small_disk / "run.mcap").rename(small_disk / "torn.mcap")
        log = logs.read(small_disk / "torn.mcap").arms["arm"]
        assert len(log) > 50
        assert (np.diff(log.time) > 0.0).all()


@pytest.mark.long
def test_full_disk_is_reported_once_and_later_faults_are_recorded(small_disk, monkeypatch, capfd):
    monkeypatch.setenv("MULTIPANDA_FAULT_LOGS", "on")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(3_000_000))
    with Cell(config_in(small_disk)) as cell:
        cell.wait(lambda: cell.latest_record()["time"] > BEFORE, 60.0, "some rows")
        reported = ""

        def complaint_reported():
            nonlocal reported
            reported += capfd.readouterr().err
            return "cannot be written" in reported

        break_down(cell)
        cell.wait(complaint_reported, 30.0, "a complaint")
        filler.unlink()
        for path in (small_disk / cell.config.cell.name).glob("*.mcap"):
            path.unlink()  # remains of the first fault log
        break_down(cell)
        cell.wait(
            lambda: complaint_reported() and reported.count("recording of a fault: ") == 1,
            30.0,
            "a log",
        )
        cell.check()
    reported += capfd.readouterr().err
    assert reported.count("cannot be written") == 1
    assert "No space left on device" in reported
    (path,) = cell.recorder.fault_logs()
    assert logs.read(path).arms["arm"].columns["fault"].any()


@pytest.mark.long
def test_file_size_limit_is_reported(tmp_path):
    """The limit acts on the recorder process, as a quota does; the disk is not full."""
    with Cell(config_in(tmp_path)) as cell:
        cell.recorder.start(tmp_path / "run.mcap")
        recording = cell.recorder.recording
        resource.prlimit(recording.pid, resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        cell.wait(lambda: not recording.is_alive, 60.0, "the end of the recorder")
        with pytest.raises(LogError, match=rf"run\.mcap: {os.strerror(errno.EFBIG)}"):
            cell.recorder.stop()
        cell.check()
    assert (tmp_path / "run.mcap").stat().st_size <= 2_000_000
    assert len(logs.read(tmp_path / "run.mcap").arms["arm"]) > 50


@pytest.mark.long
def test_stopped_recorder_counts_lost_rows(tmp_path):
    """As on an overloaded machine, rows are overwritten and the loop does not wait."""
    with Cell(config_in(tmp_path)) as cell:
        cell.recorder.start(tmp_path / "run.mcap")
        pid = cell.recorder.recording.pid
        path = tmp_path / "run.mcap"
        cell.wait(lambda: path.stat().st_size > 300_000, 60.0, "some rows in it")
        os.kill(pid, signal.SIGSTOP)
        since = cell.latest_record()["cycle"]
        cell.wait(
            lambda: cell.latest_record()["cycle"] > since + 6000,
            60.0,
            "a ring that was overwritten",
        )
        os.kill(pid, signal.SIGCONT)
        now = cell.latest_record()["cycle"]
        cell.wait(lambda: cell.latest_record()["cycle"] > now + 1500, 60.0, "rows to record")
        found = cell.recorder.stop()
    assert found.dropped > 1000
    log = logs.read(path)
    arm = log.arms["arm"]
    assert int(log.about["dropped"]) == found.dropped
    assert len(arm.gaps()) >= 1
    assert float(np.diff(arm.gaps(), axis=1).max()) == pytest.approx(found.dropped * 1e-3, rel=0.3)
