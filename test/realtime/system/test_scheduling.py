# SPDX-License-Identifier: Apache-2.0
"""Scheduling of loops: cores, priorities and CPU idle states, as the kernel reports them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from requirements import needs_two_cores

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.realtime.system import lock
from multipanda_py.realtime.system.child_process import DRIVER_NAME, LOOP_NAME
from multipanda_py.realtime.system.scheduling import (
    LoopCore,
    PinnedThread,
    before_ordinary_threads,
    loop_cpu,
    other_cpus,
    pinned_loops,
    preferred_cores,
    running_tasks,
)

pytestmark = pytest.mark.inline


def task(name, *cpus, is_realtime=True):
    return PinnedThread(name, frozenset(cpus), is_realtime)


QUIET = [task("ssh", 0, 1, 2, 3, is_realtime=False), task("audio", 0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], 3),
        ([task(LOOP_NAME, 3)], 2),
        ([task(LOOP_NAME, 3, is_realtime=False)], 2),  # a loop without priority
        ([task("python", 3)], 2),  # the loop of another program
        ([task("build", 3, is_realtime=False)], 3),
        ([task(DRIVER_NAME, 3), task(DRIVER_NAME, 3)], 3),
        ([task(LOOP_NAME, 3), task(LOOP_NAME, 2), task(LOOP_NAME, 1)], 0),
        (
            [task(LOOP_NAME, cpu) for cpu in (0, 1, 2, 3, 3)],
            2,
        ),  # no core is free; core 2 has the fewest loops
    ],
)
def test_two_loops_shared_last_core_while_others_were_free(tasks, expected):
    assert preferred_cores(range(4), [*QUIET, *tasks])[0] == expected


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """Use a temporary folder for locks."""
    monkeypatch.setattr(lock, "USER_FOLDERS", tmp_path)
    monkeypatch.setattr(lock, "SHARED_FOLDER", tmp_path)


@needs_two_cores
def test_cells_that_start_together_get_separate_cores(locks, monkeypatch):
    monkeypatch.setattr("multipanda_py.realtime.system.scheduling.running_tasks", lambda: [])
    cpus = sorted(os.sched_getaffinity(0))
    first, second = LoopCore(RealtimeConfig()), LoopCore(RealtimeConfig())
    assert [first.realtime.cpu, second.realtime.cpu] == [cpus[-1], cpus[-2]]
    first.release()
    assert LoopCore(RealtimeConfig()).realtime.cpu == cpus[-1]
    second.release()


def test_requested_core_is_used(locks):
    for cpu in (-2, 0, 1):
        core = LoopCore(RealtimeConfig(cpu=cpu))
        assert core.realtime.cpu == cpu
        assert core.fds == []


@needs_two_cores
def test_loop_of_another_process_is_found(locks):
    """The affinity and the name from the kernel identify the loop; its core stays reserved."""
    cpu = min(os.sched_getaffinity(0))
    code = (
        "import os, time; "
        "from multipanda_py.realtime.system.child_process import LOOP_NAME, name_process; "
        f"name_process(LOOP_NAME); os.sched_setaffinity(0, {{{cpu}}}); print(); time.sleep(60)"
    )
    before = pinned_loops(running_tasks()).get(cpu, 0)
    loop = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        loop.stdout.readline()
        assert pinned_loops(running_tasks()).get(cpu, 0) >= before + 1
        if before == 0 and len(os.sched_getaffinity(0)) > 2:
            assert cpu not in other_cpus(RealtimeConfig(cpu=max(os.sched_getaffinity(0))))
    finally:
        loop.kill()
        loop.wait()
        loop.stdout.close()


def test_kernel_threads_are_no_loops():
    """Kernel threads are pinned and have real-time priorities on every machine."""
    began = time.monotonic()
    found = list(running_tasks())
    assert time.monotonic() - began < 2.0
    assert not any(found.name.startswith(("migration/", "cpuhp/")) for found in found)


LATENCY = "/dev/cpu_dma_latency"
REQUEST_LATENCY = f"""
import struct
from multipanda_py.realtime.system.scheduling import keep_cores_awake
refused = keep_cores_awake()
with open({LATENCY!r}, "rb") as file:
    print(len(refused), struct.unpack("i", file.read(4))[0])
"""


@pytest.mark.skipif(not os.access(LATENCY, os.W_OK), reason="not allowed to on this machine")
def test_cores_stay_awake_until_process_ends():
    answer = subprocess.run(
        [sys.executable, "-c", REQUEST_LATENCY], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["0", "0"]  # the latency that the kernel reports


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_missing_right_to_keep_cores_awake_is_explained():
    request_code = (
        "import os; os.setuid(65534)\n"
        + REQUEST_LATENCY.split("with open", maxsplit=1)[0]
        + "print(refused[0])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", "import multipanda_py.realtime.system.scheduling\n" + request_code],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "realtime.disable_cpu_idle" in answer.stdout
    assert "udev" in answer.stdout


@pytest.mark.parametrize(
    ("cpu", "loop", "others"), [(-1, 1, [0]), (0, 0, [1]), (1, 1, [0]), (-2, None, [0, 1])]
)
def test_loop_has_its_own_core(cpu, loop, others, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert loop_cpu(RealtimeConfig(cpu=cpu)) == loop
    assert other_cpus(RealtimeConfig(cpu=cpu)) == others


def test_single_core_is_shared(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert loop_cpu(RealtimeConfig()) is None
    assert other_cpus(RealtimeConfig()) == [3]


def keeps_cores_awake(loop):
    """Return whether this process itself requests the latency, independent of others."""
    return any(os.readlink(fd) == LATENCY for fd in Path(f"/proc/{loop}/fd").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not os.access(LATENCY, os.W_OK), reason="not allowed to on this machine")
@pytest.mark.parametrize(
    ("realtime", "allowed"),
    [({}, True), ({"disable_cpu_idle": False}, False), ({"priority": 0}, False)],
)
def test_simulated_loop_with_priority_keeps_cores_awake(make_cell, realtime, allowed):
    cell = make_cell(placement="process", name=f"test_{uuid.uuid4().hex[:12]}", realtime=realtime)
    has_priority = os.sched_getscheduler(cell.loop_pid) == os.SCHED_FIFO
    assert keeps_cores_awake(cell.loop_pid) == (allowed and has_priority)


def test_zero_priority_leaves_default_scheduler():
    with before_ordinary_threads(RealtimeConfig(priority=0)):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_priority_of_thread_ends_with_its_block():
    policies = []

    def record_policy():
        policies.append(os.sched_getscheduler(0))

    with before_ordinary_threads(RealtimeConfig()):
        allowed = os.sched_getscheduler(0)
        inherits = threading.Thread(target=record_policy)
        inherits.start()
        inherits.join()
    record_policy()
    assert policies == [allowed, os.SCHED_OTHER]
