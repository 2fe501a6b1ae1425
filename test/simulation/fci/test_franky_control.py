# SPDX-License-Identifier: Apache-2.0
"""All motions of the third-party client franky-control over a lossy network."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clock

CLIENT = Path(__file__).with_name("client_franky.py")
LOSS = 0.04  # Probability for states and for commands.
TIMEOUT = 60.0


@pytest.mark.long
def test_franky_completes_all_motions_with_packet_loss(sim, address):
    if importlib.util.find_spec("franky") is None:
        pytest.skip("franky-control is not installed: pip install franky-control")
    command = [sys.executable, str(CLIENT), address, str(LOSS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: outcome for name, outcome in found["motions"].items() if outcome != "done"} == {}
    assert found["off"] < 1e-3  # Distance to the goal of the last motion [rad].
    stats = sim.admin(address, "stats")
    assert stats["lost"] > 0.05 * stats["active_cycles"]  # The network loses packets.
