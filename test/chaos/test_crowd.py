# SPDX-License-Identifier: Apache-2.0
"""The short form of `make crowd`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import PATIENCE

if find_spec("rclpy") is None or find_spec("controller_manager_msgs") is None:
    pytest.skip("needs rclpy", allow_module_level=True)

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos" / "run.py"


@pytest.mark.ros
@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.clock
@pytest.mark.timeout(240)
@pytest.mark.skipif(
    not os.environ.get("MULTIPANDA_LONG"), reason="a minute and a half: MULTIPANDA_LONG=1 runs it"
)
def test_a_crowd_of_clients_is_answered_soon_and_rightly():
    """20 of them for 10 s: lists are what the loop's rows say, and no arm is led astray."""
    done = subprocess.run(
        [sys.executable, str(RUN), "--only", "crowd", "--clients", "20", "--minutes", "0.17",
         "--patience", f"{PATIENCE}"],
        capture_output=True, text=True, check=False, timeout=220,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "nothing broke" in done.stdout
    assert "| switch |" in done.stdout
