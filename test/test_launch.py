# SPDX-License-Identifier: Apache-2.0
"""Launch files describe what the package has."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

LAUNCH_FILES = sorted((Path(__file__).resolve().parent.parent / "launch").glob("*.launch.py"))


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_compiles_and_is_documented(path):
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert "generate_launch_description" in code.co_names
    assert "ros2 launch multipanda_py " + path.name in code.co_consts[0]


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_can_be_described(path):
    pytest.importorskip("launch_ros", reason="launch is not installed")
    description = runpy.run_path(str(path))["generate_launch_description"]()
    arguments = {action.name: action for action in description.get_launch_arguments()}
    own = {"sim.launch.py": "viewer", "real.launch.py": "robot_ips"}[path.name]
    assert set(arguments) == {"config_file", "namespace", "use_rviz", own}
    assert all(action.description for action in arguments.values())
