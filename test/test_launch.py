# SPDX-License-Identifier: Apache-2.0
"""Launch files and ``make sim``."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

LAUNCH_FILES = sorted((Path(__file__).resolve().parent.parent / "launch").glob("*.launch.py"))


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_compiles_and_is_documented(path):
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert "generate_launch_description" in code.co_names
    assert "ros2 launch multipanda_py " + path.name in code.co_consts[0]


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_declares_documented_arguments(path):
    pytest.importorskip("launch_ros", reason="launch is not installed")
    description = runpy.run_path(str(path))["generate_launch_description"]()
    arguments = {action.name: action for action in description.get_launch_arguments()}
    own = {
        "sim.launch.py": {"viewer"},
        "real.launch.py": {"robot_ips"},
        "moveit.launch.py": {"moveit_folder", "controllers", "start_cell"},
    }[path.name]
    shared = {"config_file", "namespace", "cell_name", "use_rviz", "discovery_range"}
    assert set(arguments) == shared | own
    assert all(action.description for action in arguments.values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "LOCALHOST"), ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, "SUBNET")],
)
def test_make_sim_is_discovered_on_localhost_by_default(tmp_path, given, expected):
    """Run the line of the recipe with a program that prints, because make would install."""
    makefile = (LAUNCH_FILES[0].parents[1] / "Makefile").read_text(encoding="utf-8")
    [line] = re.findall(r"^sim:.*\n\t(.*)", makefile, re.MULTILINE)
    program = tmp_path / "multimode_controller"
    program.write_text('#!/bin/sh\necho "$ROS_AUTOMATIC_DISCOVERY_RANGE"\n')
    program.chmod(0o755)
    line = line.replace("$(BIN)", str(tmp_path)).replace("$(CELL)", "cell").replace("$(ARGS)", "")
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("$$", "$")],
        env=given, capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    assert done.stdout.strip() == expected
