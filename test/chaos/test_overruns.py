# SPDX-License-Identifier: Apache-2.0
"""Causes of late cycles, and the short form of `make soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from processes import wait_until

CHAOS = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos"
sys.path.insert(0, str(CHAOS))

import overruns  # noqa: E402
from overruns import Look, Overruns, cause, look  # noqa: E402

MS = 1_000_000
BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile 1: 0"


@pytest.mark.parametrize(
    ("late", "computed", "spent", "why"),
    [
        (3.0, 0.1, Look(5 * MS, MS, 3 * MS, 0, 0, 0), overruns.OTHERS),
        (0.0, 3.0, Look(5 * MS, MS, 2 * MS, 9, 0, 0), overruns.OTHERS),
        (0.0, 3.0, Look(5 * MS, MS, 0, 0, 1, 0), overruns.DISK),
        (0.0, 3.0, Look(5 * MS, 3 * MS, 0, 20, 0, 0), overruns.FAULT),
        (0.0, 3.0, Look(5 * MS, 3 * MS, 0, 0, 0, 0), overruns.US),
        (0.0, 3.0, Look(5 * MS, MS, 0, 0, 0, 0), overruns.NOT_WOKEN),
        (3.0, 0.1, Look(5 * MS, MS, 0, 0, 0, 0), overruns.NOT_WOKEN),
        (12.0, 0.1, Look(20 * MS, MS, 0, 0, 0, 10 * MS), overruns.HOST),
    ],
)
def test_cause_of_late_cycle_follows_counters(late, computed, spent, why):
    assert cause(int(late * MS), int(computed * MS), spent) == why


def test_waiting_of_preempted_process_is_measured():
    cpu = max(os.sched_getaffinity(0))
    three = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(cpu)], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    try:
        for process in three:
            process.stdout.readline()
        before = look(three[0].pid, cpu)
        looks = [before]

        def has_waited():
            looks.append(look(three[0].pid, cpu))
            return looks[-1].waited - before.waited >= 60 * MS

        wait_until(has_waited)
        spent = Look(*(b - a for a, b in zip(before, looks[-1])))
        # The kernel counts in ticks, and a wait before the first look when it ends.
        assert spent.ran + spent.waited <= spent.at + 30 * MS
        assert cause(0, 30 * MS, spent) == overruns.OTHERS
    finally:
        for process in three:
            process.kill()
            process.wait()
            process.stdout.close()


def test_only_cycles_before_skipped_periods_are_judged_once():
    names = ("missed_cycles", "epoch", "wake_ns", "deadline_ns", "compute_ns")
    rows = np.zeros(6, [(name, "i8") for name in names])
    rows["deadline_ns"] = np.arange(6) * MS
    rows["wake_ns"], rows["compute_ns"] = rows["deadline_ns"] + 20_000, 100_000
    rows["compute_ns"][3], rows["missed_cycles"][4:] = 4 * MS, 4
    judge = Overruns(os.getpid(), 0)
    observed = Look(-MS, 0, 0, 0, 0, 0), Look(30 * MS, 4 * MS, 0, 0, 0, 0)
    judge.looks.extend(observed)
    for part in (rows[:4], rows[4:]):  # The late cycle is the last of its part.
        judge.judge(part)
    assert judge.causes == {overruns.US: 1}
    assert judge.longest[overruns.US] == pytest.approx(4.02)
    assert "| total | 1 of 4 cycles | |" in judge.table()
    rows["epoch"][3:] = 1
    judge = Overruns(os.getpid(), 0)
    judge.looks.extend(observed)
    judge.judge(rows)
    assert judge.causes == {overruns.SWITCH: 1}


@pytest.mark.long
@pytest.mark.node
@pytest.mark.clock
@pytest.mark.sim
@pytest.mark.skipif(find_spec("controller_manager_msgs") is None, reason="needs rclpy")
def test_ten_second_soak_is_flat_and_explains_late_cycles():
    done = subprocess.run(
        [sys.executable, str(CHAOS / "run.py"), "--only", "soak", "--minutes", "0.17"],
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "multipanda_py.realtime.process | memory" in done.stdout
    cycles = int(done.stdout.split(" cycles | |")[0].split()[-1])
    assert cycles > 1000
    assert overruns.UNSEEN not in done.stdout
