# SPDX-License-Identifier: Apache-2.0
"""Waiting of a driver for an answer: polling on its own core, otherwise sleeping."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from requirements import needs_two_cores

DRIVER = """
import os, sys, time
from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import DriverMemory, DriverWord

os.sched_setaffinity(0, {int(sys.argv[1])})
memory = DriverMemory(7)
loop = DriverSide(memory, os.eventfd(0), os.eventfd(0))
loop.words[DriverWord.ENABLED] = 1
loop.start_motion()
number = loop.publish(*[0.0] * 31)
memory.torque.write(number, *range(1, 8))  # and nobody is woken
began = time.monotonic()
answer = loop.wait(number, time.monotonic_ns() + int(float(sys.argv[2]) * 1e9))
print(time.monotonic() - began, *answer)
print(loop.has_lines(), flush=True)
while not loop.has_lines():
    pass
print(*loop.lines(), loop.has_lines(), loop.ended(), flush=True)
while not loop.ended():
    loop.has_lines()
"""
LATE = """
import os
from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import DriverMemory, DriverWord

memory = DriverMemory(7)
loop = DriverSide(memory, os.eventfd(0), os.eventfd(0))
loop.words[DriverWord.ENABLED] = 1
for age in range(5):
    loop.start_motion()
    number = [loop.publish(*[0.0] * 31) for _ in range(5)][-1]
    memory.torque.write(number - age, *[80.0] * 7)
    print(loop.wait(number, 0) == (80.0,) * 7)
"""
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def driver():
    """Return a function that starts a driver on a core; the test takes the part of the loop."""
    running = []
    os.sched_setaffinity(0, {CPUS[-1]})

    def start(cpu, seconds):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(cpu), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        waited, *answer = map(float, process.stdout.readline().split())
        assert answer == [1, 2, 3, 4, 5, 6, 7]
        return process, waited

    yield start
    os.sched_setaffinity(0, CPUS)
    for process in running:
        process.kill()
        process.wait()


@needs_two_cores
def test_driver_with_own_core_needed_wake_up(driver):
    _, waited = driver(CPUS[0], 60.0)
    assert waited < 30.0


def test_driver_on_core_of_loop_sleeps(driver):
    _, waited = driver(CPUS[-1], 0.1)
    assert waited >= 0.1


def test_driver_detects_lines_and_end_of_input(driver):
    process, _ = driver(CPUS[0], 60.0 if len(CPUS) > 1 else 0.1)
    assert process.stdout.readline() == "False\n"
    process.stdin.write("settings\n")
    process.stdin.flush()
    assert process.stdout.readline() == "settings False False\n"
    process.stdin.close()
    assert process.wait(60.0) == 0


def test_late_command_was_executed_at_any_age_or_never():
    """Without a command for the newest state, those for the two previous states are executed."""
    result = subprocess.run([sys.executable, "-c", LATE], capture_output=True, check=True)
    assert result.stdout.split() == [b"True", b"True", b"True", b"False", b"False"]
