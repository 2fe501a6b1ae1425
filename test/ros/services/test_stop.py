# SPDX-License-Identifier: Apache-2.0
"""The stop has a participant and a thread of its own."""

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
"""An arm whose robot takes its sensor's error for a collision, and stops."""


@pytest.fixture
def stopping(ros, request):
    """A cell with its loop in a thread, and the stop of a node that is busy for ever."""
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
def test_a_stop_waited_behind_everything_else_that_the_node_was_asked_for(stopping, client):
    cell, _ = stopping
    assert cell.active
    answer = client.call(Trigger, "/busy/stop")
    again = client.call(Trigger, "/busy/stop")
    assert answer.success
    assert "every arm holds; deactivated:" in answer.message
    assert again.message.startswith("every arm holds; ")
    assert all(name.endswith("hold") for name in cell.active)


@pytest.mark.parametrize("stopping", [{"left": BIASED}], indirect=True)
def test_every_arm_was_said_to_hold_while_the_robot_of_one_was_stopped(stopping):
    cell, stop = stopping
    wait_until(lambda: cell.state("left").fault, 10.0, lambda: "a fault of left")
    answer = Trigger.Response()
    for _ in stop.handle(Trigger.Request(), answer):
        pass
    assert re.match(r"every other arm holds; left\b.*\barm_stopped;", answer.message)


def test_the_answer_to_a_stop_waited_for_the_next_turn_of_a_timer(stopping):
    """The loop stops at its next cycle, and its answer lay there for up to 2 ms more."""
    cell, stop = stopping
    law = "left/joint_impedance_controller"
    turns = []
    for _ in range(20):  # a busy machine may keep the loop from some of them
        cell.switch([law])
        answer = Trigger.Response()
        turns.append(len(list(stop.handle(Trigger.Request(), answer))))
        assert answer.message.endswith(f" deactivated: {law}")
    assert 0 in turns


def test_a_stop_waited_for_whatever_kept_the_cores_busy(stopping):
    """Its threads and those of its middleware ran at the priority of everything else."""
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


def test_a_reply_that_did_not_arrive_took_every_core(stopping):
    """Its sender tried again without a pause, before whoever was to take it."""
    senders = [task for task, name in tasks().items() if name.startswith("dds.asyn")]
    assert len(senders) > 1  # of this participant, and of the test's
    assert {os.sched_getscheduler(task) for task in senders} == {os.SCHED_OTHER}


def tasks() -> dict[int, str]:
    """Return the names of this process's threads."""
    folder = Path("/proc/self/task")
    return {int(task.name): (task / "comm").read_text() for task in folder.iterdir()}
