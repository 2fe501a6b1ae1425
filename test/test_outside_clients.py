# SPDX-License-Identifier: Apache-2.0
"""How tests run the clients of others, shown with ones that only print."""

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


def test_what_was_not_found_once_was_taken_for_a_dump_by_every_test_and_every_try(tmp_path):
    """A third of what a node announced was lost at a client's socket, and the client gave up."""
    site = tmp_path / "ros2cli"
    site.mkdir()
    (site / "cli.py").write_text(CLI)
    (site / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    clients = Outside(tmp_path)
    # In their order: what follows may need what was asked for again.
    assert clients.ros2("a", "b", "c") == ["/a: 1\n", "/b: 4\n", "/c: 5\n"]
    assert "timed out" in clients.ros2("b", turns=2)[0]


def test_an_apt_ros_2_was_no_environment_as_it_has_to_be_sourced(tmp_path):
    program = tmp_path / "bin" / "ros2"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$AMENT_PREFIX_PATH" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "setup.sh").write_text('echo sourced\nexport AMENT_PREFIX_PATH="of these"\n')
    assert Outside(tmp_path).run("ros2", "node", "list") == (0, "of these node list\n")
