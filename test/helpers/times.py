# SPDX-License-Identifier: Apache-2.0
"""Durations of tests and folders: ``make test ARGS=--times=150``."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

CPU, WALL = "processor time [s]", "wall time [s]"


def processor_time() -> float:
    """Return the processor time of this process and of its ended children [s]."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(times.ru_utime + times.ru_stime for times in used)


class Times:
    """Measure every test with its fixtures, and print a table at the end.

    Args:
        rows: Number of the slowest tests to print.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._of_tests: dict[str, tuple[float, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[START] = processor_time(), time.monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            cpu, wall = item.stash[START]
            item.user_properties.append((CPU, processor_time() - cpu))
            item.user_properties.append((WALL, time.monotonic() - wall))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the times of a test from its last report, also from workers."""
        reported = dict(report.user_properties)
        if report.when == "teardown" and CPU in reported:
            self._of_tests[report.nodeid] = reported[CPU], reported[WALL]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for name, (cpu, wall) in self._of_tests.items():
            of_folder = folders[str(PurePosixPath(name.split("::")[0]).parent)]
            of_folder[0] += 1
            of_folder[1] += cpu
            of_folder[2] += wall
        write = terminalreporter.write_line
        write("\nprocessor [s]  wall [s]  tests  folder")
        for name, (tests, cpu, wall) in sorted(folders.items(), key=lambda one: -one[1][1]):
            write(f"{cpu:13.1f} {wall:9.1f} {tests:6.0f}  {name}")
        write("\nprocessor [s]  wall [s]  test")
        slowest = sorted(self._of_tests.items(), key=lambda one: -max(one[1]))
        for name, (cpu, wall) in slowest[: self._rows]:
            write(f"{cpu:13.1f} {wall:9.1f}  {name}")


START = pytest.StashKey[tuple[float, float]]()
