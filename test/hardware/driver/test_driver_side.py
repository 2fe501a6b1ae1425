# SPDX-License-Identifier: Apache-2.0
"""How a driver waits for an answer: awake where it has a core of its own, else asleep."""

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
    """A function that lets a driver of the given core wait for an answer, this being the loop."""
    running = []
    os.sched_setaffinity(0, {CPUS[-1]})

    def start(cpu, seconds):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(cpu), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        took, *answer = map(float, process.stdout.readline().split())
        assert answer == [1, 2, 3, 4, 5, 6, 7]
        return process, took

    yield start
    os.sched_setaffinity(0, CPUS)
    for process in running:
        process.kill()
        process.wait()


@needs_two_cores
def test_a_driver_with_a_core_of_its_own_had_to_be_woken_for_an_answer_that_was_there(driver):
    _, took = driver(CPUS[0], 60.0)
    assert took < 30.0


def test_a_driver_on_the_loops_core_leaves_it_alone(driver):
    _, took = driver(CPUS[-1], 0.1)
    assert took >= 0.1


def test_what_is_said_meanwhile_is_heard_and_so_is_the_end(driver):
    process, _ = driver(CPUS[0], 60.0 if len(CPUS) > 1 else 0.1)
    assert process.stdout.readline() == "False\n"
    process.stdin.write("settings\n")
    process.stdin.flush()
    assert process.stdout.readline() == "settings False False\n"
    process.stdin.close()
    assert process.wait(60.0) == 0


def test_a_late_command_was_executed_at_any_age_or_at_none():
    """Without one for the newest state, commands for the two states before it are executed."""
    result = subprocess.run([sys.executable, "-c", LATE], capture_output=True, check=True)
    assert result.stdout.split() == [b"True", b"True", b"True", b"False", b"False"]
