# SPDX-License-Identifier: Apache-2.0
"""A node ends, whatever the middleware does not give back."""

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

DEAF = """
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
    """Run a process that hangs, or ends before; return its exit code and what it complained of."""
    code = [sys.executable, "-c", HUNG.format(patience=0.2, then=then)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_node_hung_for_good_while_it_gave_back_what_the_middleware_had():
    code, reported = run("")
    assert (code, 'File "<string>"' in reported) == (1, True), reported


def test_a_node_started_without_a_standard_error_was_not_closed_in_order():
    code = [sys.executable, "-c", "import sys; sys.stderr = None;" + HUNG.format(
        patience=0.2, then="ended(); raise SystemExit(0)")]  # fmt: skip
    assert subprocess.run(code, check=False).returncode == 0


def test_a_node_that_has_given_everything_back_is_left_alone():
    assert run("ended(); raise SystemExit(0)") == (0, "")


def test_a_node_that_was_refused_its_cell_hung_for_good_as_it_left_the_network():
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
def test_a_node_whose_callback_never_returned_was_not_ended_by_a_signal(tmp_path, callback, code):
    os.mkfifo(tmp_path / "fifo")
    words = [sys.executable, "-c", DEAF.format(callback=callback), str(tmp_path / "fifo")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(15.0) == code, process.stderr.read()
        finally:
            process.kill()


def test_a_parameter_file_that_is_a_fifo_kept_the_start_waiting(tmp_path):
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
