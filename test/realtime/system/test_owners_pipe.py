# SPDX-License-Identifier: Apache-2.0
"""Processes whose owner is killed before it has said what they are for, and as they end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from long_form import every_nth

pytestmark = pytest.mark.inline

MODULES = [
    "realtime.process", "realtime.recording.process", "simulation.viewer",
    "ros.topics.camera_node",
]  # fmt: skip
ENDS = """
import sys, threading
from multipanda_py.realtime.system.child_process import lines
told = lines()
print(next(told).decode(), next(told).decode(), flush=True)
threading.Thread(target=next, args=(told, b""), daemon=True).start()
"""


@pytest.mark.parametrize("module", every_nth(4, MODULES))
@pytest.mark.parametrize("said", [b"", b'{"cell": {'])
def test_a_process_whose_owner_was_killed_in_the_start_left_a_trace(module, said):
    if module.startswith("ros."):
        pytest.importorskip("rclpy", reason="there is no ROS")
    done = subprocess.run(
        [sys.executable, "-m", f"multipanda_py.{module}", "9"],
        input=said, capture_output=True, check=False, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"Error" not in done.stderr, done.stderr.decode()


def test_a_process_that_waited_for_its_owner_in_a_thread_ended_by_a_fatal_error():
    """A recorder whose disk was full: the lock of standard input was taken at its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"one\ntwo\nthr")
    process.stdin.flush()
    assert process.stdout.readline() == b"one two\n"
    assert process.wait(20.0) == 0
    assert process.stderr.read() == b""
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
