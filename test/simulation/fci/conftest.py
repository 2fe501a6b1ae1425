# SPDX-License-Identifier: Apache-2.0
"""Simulated robots and the clients that connect to them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import TIMEOUT_SCALE, wait_until
from repository import ROOT
from robots import unused_address

from multipanda_py.simulation.fci import FciSim

CLIENTS = Path(__file__).with_name("clients.py")
CLIENT_TIMEOUT = 15.0 * TIMEOUT_SCALE


@pytest.fixture
def new_address():
    """Return unused addresses, one per call."""
    return unused_address


@pytest.fixture(scope="module")
def shared_sim():
    """Robot in lockstep, and its address."""
    address = unused_address()
    with FciSim([address], lockstep=True) as sim:
        yield sim, address


@pytest.fixture
def sim(shared_sim):
    """Robot in lockstep after a reboot."""
    sim, address = shared_sim
    sim.admin(address, "reboot", seconds=0.0)
    wait_until(lambda: sim.admin(address, "stats")["running"])
    return sim


@pytest.fixture
def address(shared_sim):
    """Address of the shared robot."""
    return shared_sim[1]


@pytest.fixture
def make_sim():
    """Start simulated robots that end with the test."""
    running = []

    def make(*addresses, lockstep=True, **settings):
        sim = FciSim(addresses, lockstep=lockstep, **settings)
        running.append(sim)
        sim.start()
        return sim

    yield make
    for sim in running:
        sim.close()


@pytest.fixture(scope="session")
def client():
    """Run a case of ``clients.py`` in a child process that is killed when it hangs."""
    if importlib.util.find_spec("pylibfranka") is None:
        pytest.skip("pylibfranka is not installed: pip install pylibfranka")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}

    def run(case, **arguments):
        command = [sys.executable, str(CLIENTS), case, json.dumps(arguments)]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=CLIENT_TIMEOUT
            )
        except subprocess.TimeoutExpired:  # run() kills the process.
            pytest.fail(f"the client {case} hung and was killed after {CLIENT_TIMEOUT:g} s")
        assert done.returncode == 0, f"client {case}: {done.stderr[-2000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run
