# SPDX-License-Identifier: Apache-2.0
"""End of the loop: no remaining processes or descriptors, arms at rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from processes import is_running, wait_until

from multipanda_py.exceptions import BackendError

pytestmark = pytest.mark.clock

LOOP = """
import sys, numpy as np
from multipanda_py.hardware.franka.backend import Franka
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.robots.franka import LIMITS
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.state import ArmState
import select
arm = {"backend": "franka", "robot_ip": sys.argv[1]}
config = CellConfig.from_dict({"arms": {"left": arm}})
row = np.zeros(1, record_dtype(1, 0, 0))
state = ArmState("left", LIMITS["fr3"], row["arms"][0, 0:1].reshape(()))
backend = Franka(config, (0,), [state], np.zeros((0, 7)), describe_arms(config))
backend.connect()
backend.enable_commands()
backend.finish_start()
fd = next(iter(backend.wake_fds))
done = 0
while True:
    select.select([fd], [], [], 0.01)
    backend.read([0])
    if backend.is_ready(0):
        done += 1
        state.tau[3] = min(2.0, 0.1 * done)
        if done == 50:
            print(backend.real_arms[0].link.pid, flush=True)
    backend.write([0])
"""


def test_closing_leaves_no_processes_or_descriptors(lockstep, make):
    sim, addresses = lockstep
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(2):
        cell = make(addresses)
        cell.run(cell.ready)
        cell.run_cycles(20)
        os.kill(cell.backend.real_arms[1].link.pid, signal.SIGKILL)
        cell.fault(1)
        cell.recover(1)
        pids = [real.link.pid for real in cell.backend.real_arms.values()]
        began = time.monotonic()
        cell.backend.close()
        cell.backend.close()
        assert time.monotonic() - began < 1.0
        assert not any(map(is_running, pids))
        for address in addresses:
            stats = sim.admin(address, "stats")
            assert (stats["mode"], stats["errors"]) == ("idle", [])
            log = sim.admin(address, "log")["commands"]
            assert max(map(abs, log[-1]["tau"])) < 0.1
    del cell
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_failed_connection_leaves_no_descriptors(lockstep, make):
    _, addresses = lockstep
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(BackendError):
        make(addresses, franka={"cartesian_impedance": [5.0] * 6})
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_loop_ends_its_driver(clocked, needs_pylibfranka, number):
    """The driver ends the motion at zero torque, without a reflex."""
    sim, addresses = clocked
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, addresses[0]], stdout=subprocess.PIPE, text=True
    )
    try:
        driver = int(process.stdout.readline())
        assert is_running(driver)
        process.send_signal(number)
        process.wait(3.0)
        wait_until(lambda: not is_running(driver))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    stats = sim.admin(addresses[0], "stats")
    assert (stats["mode"], stats["errors"]) == ("idle", [])
    assert stats["torque_rate_max"] <= 1000.0


def test_terminated_driver_ends_motion_without_error(lockstep, make):
    sim, addresses = lockstep
    cell = make(addresses[:1])
    cell.run(cell.ready)
    cell.run_cycles(20)
    os.kill(cell.backend.real_arms[0].link.pid, signal.SIGTERM)
    kind, text = cell.fault(0)
    assert kind == "driver_died"
    assert "exited (0)" in text
    stats = sim.admin(addresses[0], "stats")
    assert (stats["mode"], stats["errors"]) == ("idle", [])
    cell.recover(0)


def test_driver_has_configured_priority(lockstep, make):
    """The driver has neither the priority 99 of libfranka nor that of the loop."""
    _, addresses = lockstep
    expected = 12 if os.geteuid() == 0 else 0
    cell = make(addresses[:1], franka={"priority": expected, "answer_budget": 0.4})
    pid = cell.backend.real_arms[0].link.pid
    assert os.sched_getparam(pid).sched_priority == expected
    assert os.sched_getscheduler(pid) == (os.SCHED_FIFO if expected else os.SCHED_OTHER)
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER
