# SPDX-License-Identifier: Apache-2.0
"""Signals during the start of a program: one line, an exit code, no remaining process."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from long_form import LONG
from processes import is_running, let_pass, wait_until
from repository import ROOT
from requirements import needs_rclpy

from multipanda_py.realtime.system.child_process import module_command

pytestmark = pytest.mark.inline

SPAN = 2.0
"""Maximum delay of a signal [s]."""
NODE = pytest.param(
    "multimode_controller",
    ["--ros-args", "--params-file", str(ROOT / "config/dual_sim.yaml")],
    id="node",
    marks=needs_rclpy,
)
RUN = pytest.param("multipanda", ["run", str(ROOT / "config/dual_sim.yaml")], id="run")
LIST = pytest.param("multipanda", ["list"], id="list")
FCI_SIM = pytest.param("multipanda", ["fci-sim", "127.0.0.77"], id="fci-sim")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
COUNT = 40 if LONG else 1


def marked_processes(mark):
    """Return the running processes that inherited a mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes() and is_running(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def catches(pid, number):
    """Return whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.fixture
def program(tmp_path):
    """Function that starts a program by its entry point; no process remains at the end."""
    mark = f"MULTIPANDA_TEST_MARK={os.getpid()}_{tmp_path.name}"
    name, value = mark.split("=")
    started = []

    def start(entry, arguments):
        if entry == "multimode_controller":
            arguments = [*arguments, "-p", f"cell.name:=start_{os.getpid()}"]
            arguments += ["-r", f"__ns:=/start_{os.getpid()}"]
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; from multipanda_py.apps.start import {entry}; "
             f"sys.argv[0] = {entry!r}; sys.exit({entry}())", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, name: value, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    wait_until(
        lambda: not marked_processes(mark),
        20.0,
        lambda: f"end of {marked_processes(mark)}",
    )


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize(("entry", "arguments"), [NODE, RUN, LIST, FCI_SIM])
def test_signal_during_start_ended_program_with_traceback_or_without_message(
    program, entry, arguments, seed
):
    chance = random.Random(f"{entry} {arguments[0]} {seed}")
    number = chance.choice(list(CODES))
    process = program(entry, arguments)
    # Until the first line of the program, Python handles signals.
    wait_until(lambda: process.poll() is not None or catches(process.pid, signal.SIGTERM))
    let_pass(chance.uniform(0.0, SPAN))
    process.send_signal(number)
    reported, _ = process.communicate(timeout=30.0)
    assert "Traceback" not in reported
    assert "Exception ignored" not in reported
    # Python removes its handlers at exit; a shell reports 130 or 143 for that, too.
    assert process.returncode in (0, CODES[number], -number), reported
    if process.returncode > 0:
        assert reported.count(number.name) == 1, reported
        assert "before" in reported.splitlines()[-1]
    else:  # started completely, or ended
        assert any(text in reported for text in ("the cell is closed", "stopped", "backends")), (
            reported
        )


@pytest.mark.parametrize("number", list(CODES))
def test_signal_during_imports_ends_program_in_one_line(program, number):
    process = program("multipanda", ["list"])
    wait_until(lambda: catches(process.pid, signal.SIGTERM), step=lambda: None)
    process.send_signal(number)
    reported, _ = process.communicate(timeout=30.0)
    assert re.fullmatch(rf"multipanda: {number.name}\b.*\n", reported)
    assert process.returncode == CODES[number]


@pytest.mark.parametrize("seed", range(3))
def test_ctrl_c_ended_importing_child_with_traceback(seed):
    """The owner handles the signal; the child ignores it."""
    chance = random.Random(seed)
    process = subprocess.Popen(
        module_command("multipanda_py.realtime.process", "0"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ignores():
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
        return int(ignored.split()[1], 16) >> (signal.SIGINT - 1) & 1

    wait_until(ignores, step=lambda: None)
    let_pass(chance.uniform(0.0, 0.5))
    process.send_signal(signal.SIGINT)
    reported, error = process.communicate("{}\n", timeout=30.0)
    assert process.returncode == 1
    assert '{"error": "ConfigurationError' in reported
    assert not error


def test_help_option_of_node_reported_missing_cell():
    command = (
        "from multipanda_py.apps.start import multimode_controller as m; raise SystemExit(m())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: multimode_controller --ros-args --params-file")
