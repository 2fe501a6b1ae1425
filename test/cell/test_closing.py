# SPDX-License-Identifier: Apache-2.0
"""Closing a cell: the loop ends first, also if other parts fail to end."""

from __future__ import annotations

import pytest

from multipanda_py.cell.recorder import Recorder
from multipanda_py.realtime import recording as logs
from multipanda_py.realtime.recording.mcap_file import FileSink
from multipanda_py.simulation import viewer

pytestmark = [pytest.mark.inline, pytest.mark.sim]


def test_failed_end_of_recording_kept_loop_alive(make_cell, tmp_path, monkeypatch):
    pytest.importorskip("mcap")
    cell = make_cell()
    cell.recorder.start(tmp_path / "run.mcap")
    cell.step(10)

    def broken(*_):
        raise RuntimeError("the writer is broken")

    monkeypatch.setattr(FileSink, "finish", broken)
    with pytest.raises(RuntimeError, match="is broken"):
        cell.close()
    assert not cell.debug.is_open
    cell.close()


def test_arms_continued_while_recorder_wrote_remaining_rows(make_cell, tmp_path, monkeypatch):
    pytest.importorskip("mcap")
    cell, observed = make_cell(), []
    stop_request, close = Recorder.request_stop, Recorder.close

    def requested(recorder, reason=""):
        observed.append(("asked", cell.debug.is_open))
        stop_request(recorder, reason)

    def closed(recorder, reason=""):
        observed.append(("waited for", cell.debug.is_open))
        close(recorder, reason)

    monkeypatch.setattr(Recorder, "request_stop", requested)
    monkeypatch.setattr(Recorder, "close", closed)
    path = tmp_path / "run.mcap"
    cell.recorder.start(path)
    cell.step(10)
    cell.close()
    assert observed == [("asked", True), ("waited for", False)]
    assert len(logs.read(path).arms[cell.arms[0]]["time"]) == 10


def test_arms_continued_for_seconds_while_viewer_closed(make_cell, monkeypatch):
    window, observed = object(), []
    monkeypatch.setattr(viewer, "start_viewer", lambda *_: window)
    monkeypatch.setattr(
        viewer, "stop_viewer", lambda closed: observed.append((closed, cell.debug.is_open))
    )
    cell = make_cell(viewer=True)
    cell.close()
    assert observed == [(window, False)]
    cell.close()
    assert len(observed) == 1
