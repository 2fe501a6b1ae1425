# SPDX-License-Identifier: Apache-2.0
"""franky-control, a client by other people, passes all its motions over a bad network."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clock

CLIENT = Path(__file__).with_name("client_franky.py")
LOSS = 0.04  # of states, and of commands
TIMEOUT = 60.0


@pytest.mark.long
def test_franky_passes_all_its_motions_although_packets_are_lost(sim, address):
    if importlib.util.find_spec("franky") is None:
        pytest.skip("franky-control is not installed: pip install franky-control")
    command = [sys.executable, str(CLIENT), address, str(LOSS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: what for name, what in found["motions"].items() if what != "done"} == {}
    assert found["off"] < 1e-3  # rad, from where the last motion goes
    stats = sim.admin(address, "stats")
    assert stats["lost"] > 0.05 * stats["active_cycles"]  # the network was bad
