# SPDX-License-Identifier: Apache-2.0
"""Automatic recordings of the seconds around a fault."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import numpy as np
import pytest

from multipanda_py import Cell
from multipanda_py.cell.recorder import plan_of
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.recording.fault_recorder import FaultSink

pytest.importorskip("mcap")
pytestmark = [pytest.mark.inline, pytest.mark.sim]
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def parts():
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.step(10)
        plan = plan_of(cell.config, cell.specs, cell.loop.mailbox.record_location)
        yield plan, cell.records()[1][:1]


def feed(sink, row, seconds, faults):
    """Feed rows at 100 Hz in blocks of 0.5 s; faults are pairs of start and end [s]."""
    time = np.arange(round(seconds * 100)) * 0.01
    rows = np.repeat(row, len(time))
    rows["time"], rows["wake_ns"] = time, np.round(time * SECOND)
    for begin, end in faults:
        inside = (time >= begin) & (time < end)
        rows["arms"]["fault"][inside] = int(Event.VELOCITY_LIMIT)
    for k in range(0, len(rows), 50):
        sink.add(rows[k : k + 50], rows["wake_ns"][k : k + 50])
    sink.finish()


def test_fault_log_covers_seconds_before_and_after_fault(parts, tmp_path):
    plan, row = parts
    sink = FaultSink(plan, row.dtype, tmp_path / "new", keep=5, before=10.0, after=2.0)
    feed(sink, row, 40.0, [(20.0, 25.0)])
    (path,) = sink.files
    assert path.name.endswith("_velocity_limit.mcap")
    (log,) = logs.read(path).arms.values()
    assert log.time[0] == pytest.approx(10.0, abs=0.011)
    assert log.time[-1] == pytest.approx(22.0, abs=0.011)
    assert log.rate == pytest.approx(100.0)
    assert not len(log.gaps())


def test_consecutive_faults_share_file_and_later_faults_get_another(parts, tmp_path):
    plan, row = parts
    sink = FaultSink(plan, row.dtype, tmp_path, keep=5, before=1.0, after=2.0)
    feed(sink, row, 30.0, [(5.0, 5.5), (6.0, 6.5), (20.0, 21.0)])
    spans = [logs.read(path).the_arm(plan.arms[0].name).time[[0, -1]] for path in sink.files]
    np.testing.assert_allclose(spans, [[4.0, 8.0], [19.0, 22.0]], atol=0.011)


def test_fault_at_start_has_shorter_log(parts, tmp_path):
    plan, row = parts
    sink = FaultSink(plan, row.dtype, tmp_path, keep=5, before=1.0, after=2.0)
    feed(sink, row, 4.0, [(0.0, 3.0)])
    (log,) = logs.read(sink.files[0]).arms.values()
    assert log.time[0] == 0.0


def test_only_newest_fault_logs_are_kept(parts, tmp_path):
    plan, row = parts
    sink = FaultSink(plan, row.dtype, tmp_path, keep=2, before=0.5, after=0.5)
    feed(sink, row, 20.0, [(2.0, 2.1), (6.0, 6.1), (10.0, 10.1), (14.0, 14.1)])
    assert len(sink.files) == 4
    assert sorted(tmp_path.iterdir()) == sorted(sink.files[-2:])


def test_unwritable_folder_is_reported_once_without_exception(parts, tmp_path, capfd):
    plan, row = parts
    (tmp_path / "file").write_text("")
    sink = FaultSink(plan, row.dtype, tmp_path / "file" / "x", keep=2, before=0.5, after=0.5)
    feed(sink, row, 10.0, [(2.0, 2.1), (6.0, 6.1)])
    assert sink.files == []
    error = capfd.readouterr().err
    assert error.count("cannot be written") == 1
    assert "Not a directory" in error


def test_blocked_terminal_stalled_fault_recorder(parts, tmp_path, monkeypatch):
    """Rows were lost while a pager or a terminal after Ctrl-S accepted no output."""
    plan, row = parts
    sink = FaultSink(plan, row.dtype, tmp_path, keep=5, before=0.5, after=0.5)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b" " * 4096):
            pass
    os.set_blocking(writing, True)
    own = os.dup(2)
    os.dup2(writing, 2)
    monkeypatch.setattr(sys, "stderr", os.fdopen(writing, "w"))
    recorder = threading.Thread(target=feed, args=(sink, row, 4.0, [(2.0, 2.1)]), daemon=True)
    try:
        recorder.start()
        recorder.join(20.0)
        assert not recorder.is_alive()
    finally:
        os.dup2(own, 2)
        for fd in (own, reading):
            os.close(fd)
    assert len(sink.files) == 1
