# SPDX-License-Identifier: Apache-2.0
"""Count of reruns over all pytest processes of a CI run, with a maximum of three."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.inline

HERE = Path(__file__).parent
CASES = """
import pytest
tries = {}

@pytest.mark.parametrize("number", range(int(__import__("os").environ["FLAKY"])))
def test_passes_the_second_time(number):
    tries[number] = tries.get(number, 0) + 1
    assert tries[number] == 2

def test_passes():
    pass
"""
PASSES = """
def test_passes():
    pass
"""
LATE = """
import pytest
from clock_loop import ClockLoop
tries = {}
ClockLoop.complaint = lambda self: (self.stop(), "late")[1]

@pytest.mark.clock
@pytest.mark.parametrize("number", range(5))
def test_passes_the_second_time(number):
    tries[number] = tries.get(number, 0) + 1
    assert tries[number] == 2
"""


@pytest.fixture
def run(tmp_path):
    """Function that runs pytest as CI does and returns exit code and output."""

    def run_once(*options, flaky=0, cases=CASES):
        (tmp_path / "test_cases.py").write_text(cases)
        environment = {
            **os.environ, "CI": "true", "FLAKY": str(flaky), "PYTEST_ADDOPTS": "",
            "MULTIPANDA_RERUNS": str(tmp_path / "reruns"),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ["PYTHONPATH"]]),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider",
             "-c", os.devnull, f"--rootdir={tmp_path}", *options, str(tmp_path)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run_once


@pytest.mark.long
@pytest.mark.parametrize(("flaky", "workers", "code"), [(3, 0, 0), (4, 1, 1)])
def test_run_with_many_reruns_passed(run, flaky, workers, code):
    found, reported = run("--reruns=1", "-n", str(workers), flaky=flaky)
    assert found == code, reported
    assert f"{flaky} reruns, {flaky} while the C loop was on time, allowed 3" in reported
    assert f"{flaky + 1} passed" in reported


@pytest.mark.long
def test_rerun_in_separate_process_was_not_counted(run):
    assert run("--reruns=1", flaky=3)[0] == 0
    found, reported = run("--again", flaky=1, cases=PASSES)
    assert found == 1, reported
    assert "4 reruns" in reported


@pytest.mark.long
def test_reruns_beside_late_c_loop_do_not_count(run):
    found, reported = run("--reruns=1", cases=LATE)
    assert found == 0, reported
    assert "5 reruns, 0 while the C loop was on time" in reported
