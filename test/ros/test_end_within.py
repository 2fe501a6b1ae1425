# SPDX-License-Identifier: Apache-2.0
"""A node ends, whatever the middleware does not give back."""

from __future__ import annotations

import subprocess
import sys

HUNG = """
import threading
from multipanda_py.ros.running import end_within, ended
end_within({patience})
{then}
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=20.0)
"""


def run(then: str) -> tuple[int, str]:
    """Run a process that hangs, or ends before; return its exit code and what it complained of."""
    code = [sys.executable, "-c", HUNG.format(patience=0.2, then=then)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_node_hung_for_good_while_it_gave_back_what_the_middleware_had():
    code, said = run("")
    assert (code, 'File "<string>"' in said) == (1, True), said


def test_a_node_that_has_given_everything_back_is_left_alone():
    assert run("ended(); raise SystemExit(0)") == (0, "")
