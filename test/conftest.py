# SPDX-License-Identifier: Apache-2.0
"""Options, hooks and fixtures of all tests, with the distribution of test controllets."""

from __future__ import annotations

import gc
import os
import re
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
from claims import claim_domain  # noqa: E402
from clock_loop import ClockLoop  # noqa: E402
from long_form import LONG  # noqa: E402
from reruns import LATE, Reruns  # noqa: E402
from times import Times  # noqa: E402

if PLUGINS not in sys.path:
    sys.path.append(PLUGINS)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH", ""), PLUGINS])
    )


settings.register_profile("any machine", deadline=None)  # the duration depends on the machine
settings.load_profile("any machine")
os.environ.setdefault("MULTIPANDA_FAULT_LOGS", "off")  # keeps the home directory of the user clean
# Tests kill dozens of processes. Their remains in shared memory made other participants lose
# messages for minutes. With discovery LOCALHOST, shared memory is always used, so this profile
# keeps other machines out instead.
LOOPBACK = {
    "FASTDDS_DEFAULT_PROFILES_FILE": str(HERE.parent / "config" / "fastdds_loopback.xml"),
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET",
}
os.environ.update(LOOPBACK)
# A separate domain per worker and per user of this machine prevents crosstalk.
os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
PARTS = ("inline", "processes", "clock")
"""Computations; nodes and processes without deadlines; tests with deadlines."""
TRIES = 2
"""Number of failures, each during a delay of the C loop, before a test is skipped."""
FAILED_ON_TIME = pytest.StashKey[bool]()
NEVER_LATE = (AttributeError, ImportError, LookupError, NameError, TypeError)
"""Exceptions of mistakes in the code, which a slow machine does not cause."""
IN_A_ROW = 3
"""Consecutive failures after which a new worker replaces a worker with deadlines.

The cause is then its connection to the middleware, or a shared node."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("all", *PARTS, "rest"), default="all",
        help="select tests: all, marked inline, marked neither inline nor clock, marked clock, or "
        "not marked inline; can be combined with -m",
    )  # fmt: skip
    parser.addoption(
        "--again", action="store_true",
        help="count each test as a rerun, because it failed in an earlier run",
    )  # fmt: skip
    parser.addoption(
        "--times", type=int, default=0, metavar="N",
        help="print the time of every folder and of the N slowest tests",
    )  # fmt: skip


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test of the part, because the import of all files takes long."""
    part = config.getoption("--part")
    if part == "all" or not collection_path.name.startswith("test_") or collection_path.is_dir():
        return None
    text = collection_path.read_text(encoding="utf-8")
    if part in ("inline", "clock"):
        return None if f"mark.{part}" in text else True
    of_module = re.search(r"^pytestmark = (\[[^\]]*\]|.*)", text, re.M)
    others = ("inline",) if part == "rest" else ("inline", "clock")
    is_other = of_module and any(f"mark.{name}" in of_module[0] for name in others)
    return True if is_other else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("--part")
    expected = {"all": PARTS, "rest": PARTS[1:]}.get(part, (part,))
    chosen, left_out = [], []
    for item in items:
        runs = part_of(item) in expected and (LONG or item.get_closest_marker("long") is None)
        (chosen if runs else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Hide the collected tests from the garbage collector.

    Each full collection would take 0.3 s for them, also while a loop runs in a thread.
    """
    gc.collect()
    gc.freeze()


def part_of(item: pytest.Item) -> str:
    """Return the part of ``make test`` that a test belongs to, by its marks."""
    marked = [name for name in ("inline", "clock") if item.get_closest_marker(name)]
    if len(marked) > 1:
        raise pytest.UsageError(f"{item.nodeid}: marked inline and clock; keep one of them")
    return marked[0] if marked else "processes"


class ImmediateReporter:
    """Print the reason of each failure at once, because an interrupted run prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._plugins.getplugin("terminalreporter")
        if terminal is not None and report.outcome in {"rerun", "failed"}:
            reason = report.longreprtext.strip()[-600:]
            terminal.write_line(f"\n{report.outcome} {report.nodeid} ({report.when})\n{reason}")


class NewWorker:
    """End a worker after consecutive failures, so that a new worker starts."""

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
            config.pluginmanager.register(ImmediateReporter(config))
            config.pluginmanager.register(Reruns.of_environment(config.getoption("--again")))
    elif config.getoption("--part") in ("rest", *PARTS[1:]):
        config.pluginmanager.register(NewWorker())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a C loop in parallel to each test with deadlines.

    The test is skipped only if it fails in all tries and the C loop is late in each of them.
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
            item.user_properties.append((LATE, bool(complaint)))
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
    """Return the number of random episodes: few by default, many by ``make robustness``."""
    return lambda short, long: long if LONG else short
