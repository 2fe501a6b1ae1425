# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the test laws' distribution, and cells that always close."""

from __future__ import annotations

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
INLINE = {"actuators", "backends", "cell", "channels", "compliance", "config", "control",
          "controllets", "dynamics", "features", "grippers", "identification", "loop", "logs",
          "datasets", "files", "machine", "pairs", "panel",
          "planning", "residual", "residual_training", "robots",
          "shadow",
          "simulation",
          "tasks", "teleoperation/test_clutch", "teleoperation/test_teleoperator",
          "chaos/test_chaos",
          "commands/test_robot_import", "drivers/test_state", "fci_sim/test_lost_commands",
          "fci_sim/test_robot", "fci_sim/test_unusable_values", "fci_sim/test_wire",
          "fci_sim/test_world", "franka/test_late_commands", "franka/test_parts",
          "gym/test_control", "gym/test_env",
          "gym/test_gym_page", "refinement/test_rounds", "ros/test_clock",
          "ros/test_conversions", "ros/test_crisp_names", "ros/test_diagnostics",
          "ros/test_bounded_messages", "ros/test_end_within", "ros/test_graph_watch",
          "ros/test_held_off",
          "ros/test_life_cycle_requests", "ros/test_outside_launch",
          "ros/test_responsiveness", "ros/test_task_start",
          "ros2_control/test_joint_states", "ros2_control/test_parts", "test/test_actuator_guide",
          "test/test_arm_guide", "test/test_backend_guide", "test/test_cli",
          "test/test_cpp_reference", "test/test_examples", "test/test_extras", "test/test_guide",
          "test/test_instruction_counts", "test/test_launch", "test/test_make_env",
          "test/test_packaging", "test/test_paper_tasks", "test/test_parameter_reference",
          "test/test_parameters", "test/test_pose", "test/test_pose_quaternion",
          "test/test_registry", "test/test_robustness_map", "test/test_rooms", "test/test_site",
          "test/test_start", "validation/test_sweep", "view/test_rendering",
          "view/test_scene_view"}  # fmt: skip
"""Folders and files whose tests only compute, in this process or one that they wait for, but for
those marked ``clock``: they may run beside one another."""
WORKSPACE = {"config/test_shipped_configs", "config/test_model_files", "robots/test_data_robots",
             "robots/test_plug_ins", "cell/test_cell", "ros/test_publishers", "ros/test_services",
             "ros/test_targets", "test/test_backend_guide", "test/test_guide", "test/test_launch",
             "test/test_packaging",
             "test/test_parameter_reference", "test/test_registry"}  # fmt: skip
"""Those that show that an installed package is whole: files, programs, plug-ins, a cell in
processes, and a node with its topics and services."""
FOLDERS = {"franka", "fci_sim", "ros"}
ON_THE_CLOCK = {"clocked", "lockstep", "make", "sim", "make_sim", "rig", "client", "start",
                "shared_node", "node_process"}  # fmt: skip
"""Fixtures with processes that watch one another by the machine's time: as libfranka does, which
gives a robot up after a second, also one in lockstep."""
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
        help="run all tests, those that may run beside one another, or the others",
    )  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.parent.name
        names = {folder, f"{folder}/{item.path.stem}"}
        if folder in FOLDERS and ON_THE_CLOCK & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.clock)
        if INLINE & names and item.get_closest_marker("clock") is None:
            item.add_marker(pytest.mark.inline)
        if WORKSPACE & names:
            item.add_marker(pytest.mark.workspace)
    part = config.getoption("--part")
    if part == "all":
        return
    chosen, left_out = [], []
    for item in items:
        inline = item.get_closest_marker("inline") is not None
        (chosen if inline == (part == "inline") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


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
