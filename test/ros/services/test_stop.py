# SPDX-License-Identifier: Apache-2.0
"""The stop service has a separate participant and thread."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from processes import wait_until
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.arms import Stop
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.node

BIASED = {
    "position": [0.0, 0.3, 0.0],
    "franka": {"upper_torque_thresholds": [5.0] * 7},
    "noise": {"tau_bias": [0.0, 20.0, 0.0, 0.0, 0.0, 0.0, 0.0]},
}
"""An arm whose biased torque sensor triggers a collision stop."""


@pytest.fixture
def stopping(ros, request):
    """A cell with its loop in a thread, and the stop of a permanently busy node."""
    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    config = simple_cell(arms | getattr(request, "param", {})).config.model_dump()
    config["cell"] |= {"placement": "thread", "name": "busy_node"}
    main = GuardedNode("busy_node", namespace="/busy")
    try:
        with Cell(CellConfig.from_dict(config)) as cell:
            stop = Stop(main, cell, [])
            try:
                yield cell, stop
            finally:
                stop.close()
    finally:
        main.destroy_node()


@pytest.mark.clock
def test_stop_waited_behind_other_requests(stopping, client):
    cell, _ = stopping
    assert cell.active
    answer = client.call(Trigger, "/busy/stop")
    again = client.call(Trigger, "/busy/stop")
    assert answer.success
    assert "every arm holds; deactivated:" in answer.message
    assert again.message.startswith("every arm holds; ")
    assert all(name.endswith("hold") for name in cell.active)


@pytest.mark.parametrize("stopping", [{"left": BIASED}], indirect=True)
def test_stop_reported_hold_of_arm_with_stopped_robot(stopping):
    cell, stop = stopping
    wait_until(lambda: cell.state("left").fault, 10.0, lambda: "a fault of left")
    answer = Trigger.Response()
    for _ in stop.handle(Trigger.Request(), answer):
        pass
    assert re.match(r"every other arm holds; left\b.*\barm_stopped;", answer.message)


def test_stop_response_waited_for_next_timer_period(stopping):
    """The loop stops at its next cycle; its response waited up to 2 ms more."""
    cell, stop = stopping
    law = "left/joint_impedance_controller"
    polls = []
    for _ in range(20):  # a busy machine may delay some of them
        cell.switch([law])
        answer = Trigger.Response()
        polls.append(len(list(stop.handle(Trigger.Request(), answer))))
        assert answer.message.endswith(f" deactivated: {law}")
    assert 0 in polls


def test_stop_waited_for_other_load_on_cores(stopping):
    """The threads of the stop and its middleware had the default priority."""
    _, stop = stopping
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        pytest.skip(f"no real-time priorities here: {error.strerror}")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    before_others = [task for task in tasks() if os.sched_getscheduler(task) == os.SCHED_RR]
    assert stop.participant.thread.native_id in before_others
    assert len(before_others) > 1  # of the middleware
    assert {os.sched_getparam(task).sched_priority for task in before_others} == {1}
    assert os.getpid() not in before_others


def test_undelivered_reply_used_every_core(stopping):
    """The sender retried without a pause, at a higher priority than the receiver."""
    senders = [task for task, name in tasks().items() if name.startswith("dds.asyn")]
    assert len(senders) > 1  # of this participant, and of the test's
    assert {os.sched_getscheduler(task) for task in senders} == {os.SCHED_OTHER}


def tasks() -> dict[int, str]:
    """Return the names of this process's threads."""
    folder = Path("/proc/self/task")
    return {int(task.name): (task / "comm").read_text() for task in folder.iterdir()}
