# SPDX-License-Identifier: Apache-2.0
"""Cores of several loops on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from needs import needs_two_cores

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.realtime.system import lock
from multipanda_py.realtime.system.child_process import DRIVER_NAME, LOOP_NAME
from multipanda_py.realtime.system.cores import (
    LoopCore,
    PinnedThread,
    pinned_loops,
    preferred_cores,
    running_tasks,
)
from multipanda_py.realtime.system.priority import other_cpus

pytestmark = pytest.mark.inline


def task(name, *cpus, is_realtime=True):
    return PinnedThread(name, frozenset(cpus), is_realtime)


QUIET = [task("ssh", 0, 1, 2, 3, is_realtime=False), task("audio", 0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], 3),
        ([task(LOOP_NAME, 3)], 2),
        ([task(LOOP_NAME, 3, is_realtime=False)], 2),  # a loop that was refused its priority
        ([task("python", 3)], 2),  # the loop of another program
        ([task("build", 3, is_realtime=False)], 3),
        ([task(DRIVER_NAME, 3), task(DRIVER_NAME, 3)], 3),
        ([task(LOOP_NAME, 3), task(LOOP_NAME, 2), task(LOOP_NAME, 1)], 0),
        ([task(LOOP_NAME, cpu) for cpu in (0, 1, 2, 3, 3)], 2),  # no core is free: fewest loops
    ],
)
def test_two_loops_shared_the_last_core_while_others_were_free(tasks, expected):
    assert preferred_cores(range(4), [*QUIET, *tasks])[0] == expected


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """A folder of locks of this test's own."""
    monkeypatch.setattr(lock, "USER_FOLDERS", tmp_path)
    monkeypatch.setattr(lock, "SHARED_FOLDER", tmp_path)


@needs_two_cores
def test_cells_that_start_at_once_get_a_core_each(locks, monkeypatch):
    monkeypatch.setattr("multipanda_py.realtime.system.cores.running_tasks", lambda: [])
    cpus = sorted(os.sched_getaffinity(0))
    first, second = LoopCore(RealtimeConfig()), LoopCore(RealtimeConfig())
    assert [first.realtime.cpu, second.realtime.cpu] == [cpus[-1], cpus[-2]]
    first.release()
    assert LoopCore(RealtimeConfig()).realtime.cpu == cpus[-1]
    second.release()


def test_a_core_that_the_cell_file_names_is_taken_as_it_is(locks):
    for cpu in (-2, 0, 1):
        core = LoopCore(RealtimeConfig(cpu=cpu))
        assert core.realtime.cpu == cpu
        assert core.fds == []


@needs_two_cores
def test_the_loop_of_another_process_is_found(locks):
    """By affinity and name, as the kernel tells them; its core is left to it."""
    cpu = min(os.sched_getaffinity(0))
    code = (
        "import os, time; "
        "from multipanda_py.realtime.system.child_process import LOOP_NAME, name_process; "
        f"name_process(LOOP); os.sched_setaffinity(0, {{{cpu}}}); print(); time.sleep(60)"
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


def test_threads_of_the_kernel_are_no_loops():
    """They are pinned and have real-time priorities on every machine."""
    began = time.monotonic()
    found = list(running_tasks())
    assert time.monotonic() - began < 2.0
    assert not any(found.name.startswith(("migration/", "cpuhp/")) for found in found)
