# SPDX-License-Identifier: Apache-2.0
"""Plots of logs: one image per arm with all recorded quantities."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ConfigurationError, LogError
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.recording.log import Log, Mark
from multipanda_py.realtime.recording.plots import draw

pytest.importorskip("matplotlib")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.inline


def log_of(*names: str) -> Log:
    time = np.delete(np.arange(0.0, 4.0, 0.01), np.s_[100:140])
    q = np.sin(time[:, None] + np.arange(7))
    arms = {
        name: ArmLog(name, None, tuple("abcdefg"), time, q, laws=("left/hold", "left/law"))
        for name in names
    }
    marks = (Mark(0.0, "left", "law", "left/hold"), Mark(2.0, "left", "law", "left/law"),
             Mark(3.0, "left", "fault", "velocity_limit"))  # fmt: skip
    return Log(arms, marks=marks)


def test_each_arm_gets_plot_with_controllets_and_faults(tmp_path):
    found = draw(log_of("left", "right"), tmp_path / "new" / "run.svg")
    assert [path.name for path in found] == ["run_left.svg", "run_right.svg"]
    left, right = (path.read_text() for path in found)
    assert "<!-- velocity_limit -->" in left
    assert "<!-- law -->" in left
    assert "velocity_limit" not in right
    assert "1 gaps" in left


def test_plot_command_draws_table(tmp_path, capsys):
    time = np.arange(200) * 0.01
    table = {"time": time} | {f"q{k}": np.sin(time + k) for k in range(1, 8)}
    pandas.DataFrame(table).to_csv(tmp_path / "arm.csv", index=False)
    assert main(["plot", str(tmp_path / "arm.csv"), "-o", str(tmp_path / "arm.png")]) == 0
    assert (tmp_path / "arm.png").read_bytes()[:4] == b"\x89PNG"
    assert "arm.png" in capsys.readouterr().out


def test_unsupported_suffix_is_refused(tmp_path):
    with pytest.raises(LogError, match=r"got '.txt', allowed .png"):
        draw(log_of("left"), tmp_path / "run.txt")


def test_unwritable_plot_file_is_reported(tmp_path):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ConfigurationError, match=r"folder\.png: "):
        draw(log_of("left"), tmp_path / "folder.png")
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="cannot be written"):
        draw(log_of("left"), tmp_path / "file" / "run.png")
