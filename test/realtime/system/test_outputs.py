# SPDX-License-Identifier: Apache-2.0
"""Programs whose standard streams are closed, as some supervisors start them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.inline

PROGRAM = """
import os, sys
from multipanda_py.realtime.system.signals import end_at_once
end_at_once("program")
print("lost", file=sys.stderr)
with open(sys.argv[1], "w") as file:
    print(file.fileno(), sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno(), file=file)
    os.write(2, b"what a library says")
"""


@pytest.mark.parametrize("closed", [[2], [1, 2], [0, 1, 2]])
def test_a_node_without_standard_error_ended_without_a_word(closed, tmp_path):
    """rclpy's executor raised, and files that were opened later took what libraries say."""
    file = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, file],
        preexec_fn=lambda: [os.close(number) for number in closed],
        timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    number, *streams = file.read_text().split()
    assert streams == ["0", "1", "2"]
    assert int(number) > 2
