# SPDX-License-Identifier: Apache-2.0
"""``multipanda bench``: complete run to its report, and interruption."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import TIMEOUT_SCALE, descendants, is_running
from requirements import needs_rclpy

from multipanda_py.apps.bench.conditions import ARM_POSITIONS, CONDITIONS

pytestmark = [pytest.mark.slow, needs_rclpy, pytest.mark.node]


def bench(folder, *words):
    command = [
        sys.executable,
        "-m",
        "multipanda_py.apps.cli",
        "bench",
        "--quick",
        "-o",
        str(folder),
    ]
    return subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.long
@pytest.mark.timeout(400)
def test_report_has_every_condition(tmp_path):
    process = bench(tmp_path, "--seconds", "0.2", "--trials", "2", "--only", "paced", "wired")
    out, err = process.communicate(timeout=90.0 * TIMEOUT_SCALE)
    assert process.returncode == 0, err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["left_out"].pop("hot") == "not requested"
    if "paced" not in report or "wired" not in report:
        pytest.skip(f"machine too slow: {report['left_out']}")
    for condition in CONDITIONS:
        found = report["paced"]["conditions"][condition]
        assert found["cycles"] > 0
        assert found["control_us"]["median"] < found["cycle_us"]["median"]
        assert {one["name"] for one in found["processes"]} >= {"ros.node.node", "realtime.process"}
        robots = report["wired"][condition]
        assert "trouble" in robots or all(robots[arm]["cycles"] > 0 for arm in ARM_POSITIONS)
    assert report["paced"]["switching"]["trials"] == 2
    assert (tmp_path / "report.md").read_text() in out
    assert (tmp_path / "report.png").is_file()


@pytest.mark.long
@pytest.mark.timeout(200)
def test_interrupted_bench_leaves_no_process(tmp_path):
    process = bench(tmp_path, "--only", "paced")
    while "on simulated arms" not in (line := process.stderr.readline()):
        assert line, "the process ended before the measurement"
    children = descendants(process.pid)
    assert children
    process.send_signal(signal.SIGINT)
    assert re.fullmatch(r"multipanda: SIGINT\b.*\b3 s\n", process.stderr.readline())
    begun = time.monotonic()
    _, err = process.communicate(timeout=30.0 * TIMEOUT_SCALE)
    assert time.monotonic() - begun < 3.0 * TIMEOUT_SCALE
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not any(map(is_running, children))
    assert not Path(tmp_path / "report.json").exists()
