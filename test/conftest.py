# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the test laws' distribution, and cells that always close."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multipanda_py.cell import Cell
from multipanda_py.testing import simple_cell

HERE = Path(__file__).parent
PLUGINS = str(HERE / "plugins")
sys.path.append(str(HERE / "helpers"))  # modules that tests in several folders import
from clock_loop import ClockLoop  # noqa: E402

if PLUGINS not in sys.path:
    sys.path.append(PLUGINS)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH", ""), PLUGINS])
    )


INLINE = {"backends", "channels", "config", "control", "controllets", "dynamics", "features",
          "planning", "robots", "simulation", "test_gate", "test_simulation", "test_withdrawn",
          "test_paper_tasks", "test_parameters", "test_pose", "test_registry",
          "test_robustness_map", "test_rooms"}  # fmt: skip
"""Folders and files whose tests compute in this process alone: they may run beside one another."""
WORKSPACE = {"config", "robots", "test_cell", "test_cli", "test_examples", "test_guide",
             "test_backend_guide", "test_launch", "test_packaging", "test_parameter_reference",
             "test_publishers", "test_registry", "test_services", "test_targets"}  # fmt: skip
"""Folders and files whose tests show that an installed package is whole: files, programs,
plug-ins, a cell in processes, and a node with its topics and services."""
FOLDERS = {"franka", "fci_sim", "ros"}
ON_THE_CLOCK = {"clocked", "lockstep", "make", "sim", "make_sim", "rig", "client", "start",
                "shared_node", "node_process"}  # fmt: skip
"""Fixtures with processes that watch one another by the machine's time: as libfranka does, which
gives a robot up after a second, also one in lockstep."""
NEVER_LATE = (AttributeError, ImportError, LookupError, NameError, TypeError)
"""What no machine is too slow for: a mistake in the code, not a deadline that was missed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("all", "inline", "rest"), default="all",
        help="run all tests, those that may run beside one another, or the others",
    )  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if INLINE & {item.path.parent.name, item.path.stem}:
            item.add_marker(pytest.mark.inline)
        if WORKSPACE & {item.path.parent.name, item.path.stem}:
            item.add_marker(pytest.mark.workspace)
        if item.path.parent.name in FOLDERS and ON_THE_CLOCK & set(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.clock)
    part = config.getoption("--part")
    if part == "all":
        return
    chosen, left_out = [], []
    for item in items:
        inline = item.get_closest_marker("inline") is not None
        (chosen if inline == (part == "inline") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Judge a test on the clock by a loop in C that runs beside it."""
    if item.get_closest_marker("clock") is None:
        return (yield)
    with ClockLoop() as loop:
        try:
            return (yield)
        except NEVER_LATE:
            raise
        except (Exception, pytest.fail.Exception) as error:
            if complaint := loop.complaint():
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
