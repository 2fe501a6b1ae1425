# SPDX-License-Identifier: Apache-2.0
"""What the machine is asked for, as the kernel sees it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.realtime.system.priority import before_ordinary_threads, loop_cpu, other_cpus

pytestmark = pytest.mark.inline

LATENCY = "/dev/cpu_dma_latency"
ASK = f"""
import struct
from multipanda_py.realtime.system.priority import keep_cores_awake
refused = keep_cores_awake()
with open({LATENCY!r}, "rb") as file:
    print(len(refused), struct.unpack("i", file.read(4))[0])
"""


@pytest.mark.skipif(not os.access(LATENCY, os.W_OK), reason="not allowed to on this machine")
def test_cores_are_kept_awake_as_long_as_the_process_lives():
    answer = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["0", "0"]  # the kernel's own word for the wanted latency


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_may_not_keep_cores_awake_is_told_how_to_be_allowed():
    ask = (
        "import os; os.setuid(65534)\n"
        + ASK.split("with open", maxsplit=1)[0]
        + "print(refused[0])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", "import multipanda_py.realtime.system.priority\n" + ask],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "realtime.disable_cpu_idle" in answer.stdout
    assert "udev" in answer.stdout


@pytest.mark.parametrize(
    ("cpu", "loop", "others"), [(-1, 1, [0]), (0, 0, [1]), (1, 1, [0]), (-2, None, [0, 1])]
)
def test_the_loop_has_a_core_of_its_own(cpu, loop, others, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert loop_cpu(RealtimeConfig(cpu=cpu)) == loop
    assert other_cpus(RealtimeConfig(cpu=cpu)) == others


def test_a_single_core_is_shared(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert loop_cpu(RealtimeConfig()) is None
    assert other_cpus(RealtimeConfig()) == [3]


def keeps_cores_awake(loop):
    """Whether a process asks the kernel for it, whatever others on this machine do."""
    return any(os.readlink(fd) == LATENCY for fd in Path(f"/proc/{loop}/fd").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not os.access(LATENCY, os.W_OK), reason="not allowed to on this machine")
@pytest.mark.parametrize(
    ("realtime", "allowed"),
    [({}, True), ({"disable_cpu_idle": False}, False), ({"priority": 0}, False)],
)
def test_a_simulated_loop_with_priority_is_not_late_because_its_core_sleeps(
    make_cell, realtime, allowed
):
    cell = make_cell(placement="process", name=f"test_{uuid.uuid4().hex[:12]}", realtime=realtime)
    has_priority = os.sched_getscheduler(cell.loop_pid) == os.SCHED_FIFO
    assert keeps_cores_awake(cell.loop_pid) == (allowed and has_priority)


def test_a_cell_that_wants_no_priority_gets_none():
    with before_ordinary_threads(RealtimeConfig(priority=0)):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_the_priority_of_a_thread_ends_with_the_block_that_wanted_it():
    policies = []

    def note():
        policies.append(os.sched_getscheduler(0))

    with before_ordinary_threads(RealtimeConfig()):
        allowed = os.sched_getscheduler(0)
        inherits = threading.Thread(target=note)
        inherits.start()
        inherits.join()
    note()
    assert policies == [allowed, os.SCHED_OTHER]
