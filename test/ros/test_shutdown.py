# SPDX-License-Identifier: Apache-2.0
"""Shutdown of a node, also with a middleware that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from long_form import every_nth

pytestmark = pytest.mark.inline

HUNG = """
import threading
from multipanda_py.ros.node.running import end_within, ended
end_within({patience})
{then}
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=20.0)
"""

HUNG_LATER = """
import sys, time
from functools import partial
import multipanda_py.ros.node.node as node
node.end_within = partial(node.end_within, 0.5)
node.rclpy.try_shutdown = lambda: time.sleep(20.0)
sys.exit(node.main(["node"]))
"""

HUNG_CALLBACK = """
import os, sys, time
import multipanda_py.ros.node.running as running
running.CALLBACK_TIMEOUT = 0.3
signals = running.StopSignals()
with signals.serving():
    print("ready", flush=True)
    {callback}
print(signals.received, flush=True)
time.sleep(0.6)
"""


def run(then: str) -> tuple[int, str]:
    """Run a process that may hang; return its exit code and its error output."""
    code = [sys.executable, "-c", HUNG.format(patience=0.2, then=then)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_node_hung_while_releasing_middleware_resources():
    code, reported = run("")
    assert (code, 'File "<string>"' in reported) == (1, True), reported


def test_node_without_standard_error_was_not_closed_in_order():
    code = [sys.executable, "-c", "import sys; sys.stderr = None;" + HUNG.format(
        patience=0.2, then="ended(); raise SystemExit(0)")]  # fmt: skip
    assert subprocess.run(code, check=False).returncode == 0


def test_node_with_released_resources_is_not_interrupted():
    assert run("ended(); raise SystemExit(0)") == (0, "")


def test_node_with_rejected_cell_hung_at_middleware_shutdown():
    code = [sys.executable, "-c", HUNG_LATER]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=60.0)
    assert "no cell given" in done.stderr, done.stderr
    assert "Timeout (0:00:00.500000)!" in done.stderr
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("callback", "code"),
    every_nth(
        3,
        [
            ("open(sys.argv[1])", 1),
            ("while True: time.sleep(10.0)", 1),
            ("while True: pass", 1),
            ("import ctypes; ctypes.CDLL(None).pause(); ctypes.CDLL(None).sleep(20)", 1),
            ("while not signals.received: time.sleep(0.01)", 0),
        ],
    ),
)
def test_signal_did_not_end_node_with_blocked_callback(tmp_path, callback, code):
    os.mkfifo(tmp_path / "fifo")
    words = [sys.executable, "-c", HUNG_CALLBACK.format(callback=callback), str(tmp_path / "fifo")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(15.0) == code, process.stderr.read()
        finally:
            process.kill()


def test_fifo_as_parameter_file_blocked_start(tmp_path):
    path = tmp_path / "cell.yaml"
    os.mkfifo(path)
    words = [
        sys.executable,
        "-m",
        "multipanda_py.ros.node.node",
        "--ros-args",
        "--params-file",
        path,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30.0)
    assert done.returncode == 1
    assert f"{path}: " in done.stderr
