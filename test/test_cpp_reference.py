# SPDX-License-Identifier: Apache-2.0
"""The C++ reference of the benchmarks computes what the laws compute: a second implementation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.inline

RUN = Path(__file__).parent.parent / "benchmarks" / "cpp" / "run.py"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_laws_and_reference_agree_on_every_torque():
    done = subprocess.run([sys.executable, str(RUN), "--check"], capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert {"DC-NF", "DC-CA", "DC-MA", "DC-CA-MA", "C-MA", "UFIC x 2"} <= set(found)
    assert all(one["states"] >= 50 and one["worst_nm"] <= 1e-9 for one in found.values())
    assert found["DC-CA-MA"]["arms_near_something"] > 20
