# SPDX-License-Identifier: Apache-2.0
"""Runner of third-party clients, tested with programs that print."""

from __future__ import annotations

import sys

import pytest
from outside import Outside

pytestmark = pytest.mark.inline

CLI = """
turns = []
def main():
    import sys
    turns.append(sys.argv[1])
    if sys.argv[1] == "b" and turns.count("b") < 3:
        print("Wait for service timed out waiting for parameter services for node /b")
    else:
        print(f"/{sys.argv[1]}: {len(turns)}")
"""


def test_failed_service_discovery_was_cached_as_parameter_dump(tmp_path):
    """The socket of a client lost a third of the announcements of a node."""
    site = tmp_path / "ros2cli"
    site.mkdir()
    (site / "cli.py").write_text(CLI)
    (site / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    clients = Outside(tmp_path)
    # In order, because later commands may depend on a repeated one.
    assert clients.ros2("a", "b", "c") == ["/a: 1\n", "/b: 4\n", "/c: 5\n"]
    assert "timed out" in clients.ros2("b", tries=2)[0]


def test_apt_ros_2_was_not_found_without_sourcing(tmp_path):
    program = tmp_path / "bin" / "ros2"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$AMENT_PREFIX_PATH" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "setup.sh").write_text('echo sourced\nexport AMENT_PREFIX_PATH="of these"\n')
    assert Outside(tmp_path).run("ros2", "node", "list") == (0, "of these node list\n")
