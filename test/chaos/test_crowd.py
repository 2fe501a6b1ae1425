# SPDX-License-Identifier: Apache-2.0
"""Short form of `make crowd`."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from long_form import LONG
from processes import TIMEOUT_SCALE

pytestmark = [pytest.mark.clock, pytest.mark.node]

if find_spec("rclpy") is None or find_spec("controller_manager_msgs") is None:
    pytest.skip("needs rclpy", allow_module_level=True)

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos" / "run.py"


CLIENTS, SECONDS = (50, 60.0) if LONG else (8, 3.0)


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.timeout(400)
def test_crowd_of_clients_receives_correct_answers_in_time():
    """Lists agree with the records of the loop, all requests are answered, no arm deviates."""
    done = subprocess.run(
        [sys.executable, str(RUN), "--only", "crowd", "--clients", str(CLIENTS),
         "--minutes", f"{SECONDS / 60.0:g}", "--patience", f"{TIMEOUT_SCALE}"],
        capture_output=True, text=True, check=False, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "no failures" in done.stdout
    assert "| switch |" in done.stdout
    assert f"{CLIENTS} of {CLIENTS} clients are connected" in done.stderr
