# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the test laws' distribution, and cells that always close."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from multipanda_py.cell import Cell
from multipanda_py.testing import simple_cell

HERE = Path(__file__).parent
PLUGINS = str(HERE / "plugins")
sys.path.append(str(HERE / "helpers"))  # modules that tests in several folders import
from clock_loop import ClockLoop  # noqa: E402
from times import Times  # noqa: E402

if PLUGINS not in sys.path:
    sys.path.append(PLUGINS)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH", ""), PLUGINS])
    )


settings.register_profile("any machine", deadline=None)  # how long an example takes says nothing
settings.load_profile("any machine")
os.environ.setdefault("MULTIPANDA_FAULT_LOGS", "off")  # not into the home of who runs tests
# Tests kill dozens of processes, and what those leave in shared memory has cost others their
# messages for minutes. Where discovery is LOCALHOST, shared memory is used whatever else is said,
# so it is this file that keeps strangers out.
LOOPBACK = {
    "FASTDDS_DEFAULT_PROFILES_FILE": str(HERE.parent / "config" / "fastdds_loopback.xml"),
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET",
}
os.environ.update(LOOPBACK)
TRIES = 2
"""How often a test has to fail, always beside a loop in C that is late, before it is skipped."""
FAILED_ON_TIME = pytest.StashKey[bool]()
NEVER_LATE = (AttributeError, ImportError, LookupError, NameError, TypeError)
"""What no machine is too slow for: a mistake in the code, not a deadline that was missed."""
IN_A_ROW = 3
"""Failures one after another, after which a worker on the clock gives way to a new one: what fails
everything is then its connection to the middleware, or a node that all share."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("all", "inline", "rest"), default="all",
        help="run all tests, those marked inline, or the others; goes together with any -m",
    )  # fmt: skip
    parser.addoption(
        "--times", type=int, default=0, metavar="N",
        help="print the time of every folder and of the N slowest tests",
    )  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("--part")
    if part == "all":
        return
    chosen, left_out = [], []
    for item in items:
        inline = item.get_closest_marker("inline") is not None
        (chosen if inline == (part == "inline") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Hide the collected tests from the garbage collector.

    The start of every loop collects garbage; a pass over thousands of tests takes 0.3 s.
    """
    gc.collect()
    gc.freeze()


class ToldAtOnce:
    """Say why a test has failed when it has: a run that is cut off prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._plugins.getplugin("terminalreporter")
        if terminal is not None and report.outcome in {"rerun", "failed"}:
            reason = report.longreprtext.strip()[-600:]
            terminal.write_line(f"\n{report.outcome} {report.nodeid} ({report.when})\n{reason}")


class NewWorker:
    """End a worker in which nothing passes any more, so that the next one begins afresh."""

    def __init__(self) -> None:
        self._failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "failed" and report.nodeid not in self._failed:
            self._failed.append(report.nodeid)
        elif report.outcome == "passed" and report.when == "call":
            self._failed.clear()

    def pytest_runtest_logstart(self) -> None:
        if len(self._failed) >= IN_A_ROW:
            os._exit(1)


def pytest_configure(config: pytest.Config) -> None:
    if rows := config.getoption("--times"):
        config.pluginmanager.register(Times(rows))
    if not hasattr(config, "workerinput"):
        if os.environ.get("CI"):
            config.pluginmanager.register(ToldAtOnce(config))
    elif config.getoption("--part") == "rest":
        config.pluginmanager.register(NewWorker())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Judge a test on the clock by a loop in C that runs beside it.

    It is skipped only if it could not pass in any of its tries, and the loop was late in each.
    """
    if item.get_closest_marker("clock") is None:
        return (yield)
    with ClockLoop() as loop:
        try:
            return (yield)
        except NEVER_LATE:
            raise
        except (Exception, pytest.fail.Exception) as error:
            complaint = loop.complaint()
            if not complaint:
                item.stash[FAILED_ON_TIME] = True
            tries = min(TRIES, 1 + (item.config.getoption("reruns", None) or 0))
            is_last = getattr(item, "execution_count", 1) >= tries
            if complaint and is_last and not item.stash.get(FAILED_ON_TIME, False):
                pytest.skip(f"{complaint} ({type(error).__name__}: {str(error)[:200]})")
            raise


@pytest.fixture
def make_cell() -> Iterator[Callable[..., Cell]]:
    """Start cells that are closed at the end of the test."""
    cells: list[Cell] = []

    def make(*args: Any, **settings: Any) -> Cell:
        cell = simple_cell(*args, **settings)
        cells.append(cell)
        cell.start()
        return cell

    yield make
    for cell in cells:
        cell.close()


@pytest.fixture
def episodes() -> Callable[[int, int], int]:
    """Return how many random episodes to run: few by default, many by ``make robustness``."""
    return lambda short, long: long if os.environ.get("MULTIPANDA_LONG") else short
