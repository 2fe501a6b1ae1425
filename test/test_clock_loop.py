# SPDX-License-Identifier: Apache-2.0
"""What fails on a machine on which a loop in C is late too is skipped, with the figures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clock_loop import ClockLoop, program

HERE = Path(__file__).parent
CASES = """
import os, signal, time
from pathlib import Path
import pytest

def stall():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in map(int, children):
        os.kill(child, signal.SIGSTOP)
    time.sleep(0.1)
    for child in map(int, children):
        os.kill(child, signal.SIGCONT)

@pytest.mark.clock
def test_fails_on_a_slow_machine():
    stall()
    assert 1 == 2

@pytest.mark.clock
def test_passes_on_a_slow_machine():
    stall()

@pytest.mark.clock
def test_fails_at_once():
    assert 1 == 2

def test_is_not_on_the_clock():
    stall()
    assert 1 == 2
"""
pytestmark = pytest.mark.skipif(program() is None, reason="needs a C compiler")


def test_the_loop_counts_what_it_missed():
    with ClockLoop() as loop:
        began = time.monotonic()
        os.kill(loop._process.pid, signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(loop._process.pid, signal.SIGCONT)
        time.sleep(0.02)
        lasted = 1000.0 * (time.monotonic() - began)
    assert loop.missed >= 80
    assert loop.worst >= 80_000
    assert loop.cycles >= 0.8 * lasted
    found = f"the C loop missed {loop.missed} of {loop.cycles}, at worst .* ms late"
    assert re.match(f"machine too slow: {found}", loop.complaint())


@pytest.mark.clock
def test_only_a_failure_on_the_clock_of_a_slow_machine_is_skipped(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rfs", "-p", "conftest", "-c", os.devnull,
         f"--rootdir={tmp_path}", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ["PYTHONPATH"]])},
    )  # fmt: skip
    assert "2 failed, 1 passed, 1 skipped" in done.stdout, done.stdout
    assert "machine too slow: the C loop missed" in done.stdout
    assert re.search(r"FAILED \S*::test_fails_at_once", done.stdout)
    assert re.search(r"FAILED \S*::test_is_not_on_the_clock", done.stdout)
