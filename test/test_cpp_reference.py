# SPDX-License-Identifier: Apache-2.0
"""Controllets against their second implementation, the C++ reference of the benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.inline

RUN = Path(__file__).parent.parent / "benchmarks" / "cpp" / "run.py"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_controllets_match_torques_of_cpp_reference():
    done = subprocess.run([sys.executable, str(RUN), "--check"], capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    results = json.loads(done.stdout)
    assert done.returncode == 0, results
    assert {"DC-NF", "DC-CA", "DC-MA", "DC-CA-MA", "C-MA", "UFIC x 2"} <= set(results)
    assert all(
        result["states"] >= 50 and result["worst_nm"] <= 1e-9 for result in results.values()
    )
    assert results["DC-CA-MA"]["arms_near_something"] > 20
