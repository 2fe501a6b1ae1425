# SPDX-License-Identifier: Apache-2.0
"""Cells with a loop in a separate process: start, crash, silence, end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import uuid

import pytest
from processes import TIMEOUT_SCALE, let_pass, wait_until

from multipanda_py.exceptions import CellBusy, LoopError, SwitchRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.workspace]

OWNER = """
import os, sys, time
from multipanda_py.testing import simple_cell
cell = simple_cell(placement="process", name=sys.argv[1],
                   active=["left/cartesian_impedance_controller"],
                   heartbeat_timeout=0.3)
cell.start()
sys.stdout.write(f"{cell.loop_pid}\\n"); sys.stdout.flush()
if sys.argv[2] == "crash":
    os._exit(9)
for line in sys.stdin:
    sys.stdout.write(f"{[e.event.name for e in cell.events()]} {cell.active}\\n")
    sys.stdout.flush()
cell.close()
"""


def unique():
    return f"test_{uuid.uuid4().hex[:12]}"


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def owner(mode, name):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), name, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("placement", ["process", "thread"])
def test_cell_in_real_time_moves_switches_and_ends(make_cell, placement):
    cell = make_cell(
        placement=placement, name=unique(), active=["left/cartesian_impedance_controller"]
    )
    pose = cell.pose("left")
    cell.set_target("left", Pose(pose.position + [0.0, 0.0, 0.05], pose.rotation))
    cell.wait(lambda: cell.pose("left").position[2] > pose.position[2] + 0.045, 10.0, "lift")
    result = cell.switch(
        ["left/joint_impedance_controller"], ["left/cartesian_impedance_controller"]
    )
    assert 0.0 < result.delay < 1.0
    assert re.search(r"\d+\.\d+ ms\b", result.message)
    cell.wait(lambda: cell.statistics().cycles > 100, 10.0)
    assert cell.statistics().real_time_factor > 0.0
    loop = cell.loop_pid
    cell.close()
    if placement == "process":
        assert not is_running(loop)
    with pytest.raises(LoopError, match="not started"):
        cell.check()


def test_closed_cell_leaves_no_named_shared_memory(make_cell):
    before = set(os.listdir("/dev/shm"))
    cell = make_cell(placement="process", name=unique())
    cell.wait(lambda: cell.statistics().cycles > 10, 10.0)
    assert set(os.listdir("/dev/shm")) <= before


def test_killed_loop_is_reported_with_reason(make_cell):
    cell = make_cell(placement="process", name=unique())
    os.kill(cell.loop_pid, signal.SIGKILL)

    def is_down():
        try:
            cell.check()
        except LoopError:
            return True
        return False

    wait_until(is_down)
    with pytest.raises(LoopError, match="killed by SIGKILL"):
        cell.switch(["left/cartesian_impedance_controller"])


def test_crashed_owner_leaves_no_loop_and_is_reported():
    process = owner("crash", unique())
    pid = int(process.stdout.readline())
    wait_until(lambda: not is_running(pid))
    _, complaint = process.communicate(timeout=10 * TIMEOUT_SCALE)
    assert "owner" in complaint


def test_killed_owner_releases_cell():
    name = unique()
    process = owner("stay", name)
    pid = int(process.stdout.readline())
    with pytest.raises(CellBusy, match=f"started by process {process.pid}"):
        simple_cell(placement="process", name=name).start()
    process.kill()
    process.communicate(timeout=10 * TIMEOUT_SCALE)
    wait_until(lambda: not is_running(pid))
    with simple_cell(placement="process", name=name) as cell:
        cell.check()


def test_silent_owner_puts_all_arms_in_hold_until_switch():
    """The owner is stopped before its first heartbeat; the timeout of a start, 20 s, applied."""
    process = owner("stay", unique())
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    let_pass(1.0)  # the silence under test lasts three heartbeat timeouts
    process.send_signal(signal.SIGCONT)
    process.stdin.write("report\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert Event.CLIENT_SILENT.name in answer
    assert "left/hold" in answer
    assert is_running(pid)
    process.communicate(timeout=10 * TIMEOUT_SCALE)
    assert not is_running(pid)


def test_failed_loop_start_is_reported_with_reason():
    cell = simple_cell(
        placement="process", name=unique(), meshes="/no/such/folder",
    )  # fmt: skip
    with pytest.raises(LoopError, match="/no/such/folder"):
        cell.start()
    with pytest.raises(LoopError):
        cell.check()


def test_unknown_names_are_refused_with_known_names(make_cell):
    cell = make_cell()
    with pytest.raises(UnknownName, match="known: left, right"):
        cell.state("middle")
    with pytest.raises(UnknownName, match="left/hold"):
        cell.parameters("nothing")


def test_switches_respect_lifecycle(make_cell):
    cell = make_cell()
    name = "left/cartesian_impedance_controller"
    cell.set_lifecycle(name, "unloaded")
    with pytest.raises(SwitchRejected, match="not loaded"):
        cell.switch([name])
    cell.set_lifecycle(name, "inactive")
    cell.switch([name])
    with pytest.raises(SwitchRejected, match="is active"):
        cell.set_lifecycle(name, "unloaded")


def test_cell_can_be_closed_twice_or_without_start():
    cell = simple_cell()
    cell.close()
    cell.start()
    cell.close()
    cell.close()
    with pytest.raises(LoopError, match="not started"):
        cell.state("left")
