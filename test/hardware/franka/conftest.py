# SPDX-License-Identifier: Apache-2.0
"""Simulated robots and a minimal loop that runs real backends with them."""

from __future__ import annotations

import importlib.util
import os
import select
from pathlib import Path

import numpy as np
import pytest
from processes import wait_until
from robots import unused_address

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.hardware.franka.backend import Franka
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots.franka import LIMITS
from multipanda_py.simulation.fci import FciSim
from multipanda_py.state import ArmState

NAMES = ("left", "right")
LONG_BUDGET = {"answer_budget": 0.5}
"""Settings for lockstep: the robot waits, so that the load of the machine has no effect."""
STIFFNESS = np.array([40.0] * 4 + [10.0, 10.0, 5.0])
DAMPING = np.array([8.0] * 4 + [1.5, 1.5, 1.0])


class Harness:
    """Interface of a control loop for a backend; torques move the arms to ``goals``."""

    def __init__(self, addresses, **arm):
        options = arm.pop("franka", LONG_BUDGET)
        names = NAMES[: len(addresses)]
        arms = {
            name: {"backend": "franka", "robot_ip": ip, "franka": options, **arm}
            for name, ip in zip(names, addresses)
        }
        self.config = CellConfig.from_dict({"arms": arms})
        row = np.zeros(1, record_dtype(len(arms), 0, 0))
        self.states = [
            ArmState(name, LIMITS["fr3"], row["arms"][0, i : i + 1].reshape(()))
            for i, name in enumerate(names)
        ]
        self.indices = tuple(range(len(arms)))
        self.backend = Franka(
            self.config, self.indices, self.states, np.zeros((0, 7)), describe_arms(self.config)
        )
        self.faults = []
        self.bias = np.zeros(7)
        self.cycles = [0] * len(arms)

    def connect(self):
        self.backend.connect()
        self.backend.enable_commands()
        self.backend.finish_start()
        self.goals = [state.q.copy() for state in self.states]
        return self

    def step(self, timeout=0.002, write=True):
        backend = self.backend
        fds = backend.wake_fds
        fresh = [fds[fd] for fd in select.select(list(fds), [], [], timeout)[0]]
        backend.read(fresh)
        self.faults.extend(backend.faults())
        for i in fresh:
            state = self.states[i]
            if backend.is_ready(i):
                self.cycles[i] += 1
                expected = STIFFNESS * (self.goals[i] - state.q) - DAMPING * state.dq + self.bias
                state.tau += np.clip(expected - state.tau, -0.9, 0.9)
        if write:
            backend.write(fresh)
        return fresh

    def run(self, until, timeout=5.0, write=True):
        """Run until a condition holds; fail after the timeout."""
        wait_until(
            until, timeout, lambda: f"faults: {self.faults}", lambda: self.step(write=write)
        )

    def run_cycles(self, cycles, timeout=10.0):
        """Run until every arm has executed a number of further cycles."""
        goals = [done + cycles for done in self.cycles]
        self.run(lambda: all(a >= b for a, b in zip(self.cycles, goals)), timeout)

    def ready(self):
        return all(self.backend.is_ready(i) for i in self.indices)

    def recover(self, arm, timeout=5.0):
        """Recover an arm and run until it executes torques."""
        self.backend.recover(arm)
        self.faults.clear()
        self.run(lambda: self.backend.is_ready(arm), timeout)
        assert self.faults == []

    def fault(self, arm, timeout=5.0):
        """Run until an arm reports a fault; return its type and text."""
        self.run(lambda: any(index == arm for index, _ in self.faults), timeout)
        text = next(text for index, text in self.faults if index == arm)
        return text.split(":", 1)[0], text


@pytest.fixture(scope="session")
def needs_pylibfranka():
    if importlib.util.find_spec("pylibfranka") is None:
        pytest.skip("pylibfranka is not installed: pip install pylibfranka")


@pytest.fixture
def new_address():
    """Return unused addresses, one per call."""
    return unused_address


def _set_priority(priority):
    """Set a real-time priority, 0 for none; return whether the machine permits it."""
    allowed = True
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(max(priority, 1)))
    except OSError:
        allowed = False
    if not priority:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return allowed


def _power_cycle(sim, addresses):
    for address in addresses:
        sim.admin(address, "reboot", seconds=0.0)
    for address in addresses:
        wait_until(lambda address=address: sim.admin(address, "stats")["running"])
    return sim, addresses


_ROBOTS = {}
"""Robots that the tests of this folder share, by name."""


def _shared_robots(kind, **settings):
    """Return two robots and their addresses, started at the first request."""
    if kind not in _ROBOTS:
        addresses = [unused_address(), unused_address()]
        sim = FciSim(addresses, **settings)
        sim.start()
        _ROBOTS[kind] = sim, addresses
    return _ROBOTS[kind]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Close the robots after the last test of this folder, as they use half a core."""
    try:
        return (yield)
    finally:
        if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
            while _ROBOTS:
                _ROBOTS.popitem()[1][0].close()


@pytest.fixture
def lockstep():
    """Return two freshly started robots in lockstep and their addresses."""
    return _power_cycle(*_shared_robots("lockstep", lockstep=True))


@pytest.fixture
def clocked():
    """Return two freshly started robots in real time and their addresses.

    The test has the real-time priority of a loop, if permitted.
    """
    priority = 40 if _set_priority(0) else 0
    robots = _shared_robots("clocked", phases=[0.0, 0.5], priority=priority)
    _set_priority(70)
    yield _power_cycle(*robots)
    _set_priority(0)


@pytest.fixture
def make(needs_pylibfranka):
    """Return a function that connects harnesses; the end of the test closes them."""
    made = []

    def connect(addresses, **arm):
        harness = Harness(addresses, **arm)
        made.append(harness)
        return harness.connect()

    yield connect
    for harness in made:
        harness.backend.close()
