# SPDX-License-Identifier: Apache-2.0
"""Tasks of a node whose arm has a fault, or that meet what nobody has thought of; in lockstep."""

from __future__ import annotations

import pytest
import yaml
from cell_names import ARMS
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.parameter import Parameter
from repository import ROOT
from std_srvs.srv import Trigger

from multipanda_py import Cell
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.qos import LATCHED
from multipanda_py.ros.services.tasks import TaskServices
from multipanda_py.ros.topics.targets import Targets

pytestmark = [pytest.mark.clock, pytest.mark.node]

HOLDS = {f"{arm}/hold" for arm in ARMS}


class Served:
    """The services of a cell that is stepped by hand, in this process."""

    def __init__(self, cell, folder, client):
        self.cell, self.received, self.client = cell, [], client
        self.node = GuardedNode("served", namespace="/served", enable_rosout=False)
        targets = Targets(self.node, cell, NodeClock(self.node.get_clock()), 1.0)
        self.tasks = TaskServices(self.node, cell, targets)
        client.node.create_subscription(
            DiagnosticStatus, "/served/task_runner/state", self.received.append, LATCHED
        )
        sides = {"sides": {"object": "box", "arms": list(ARMS), "side": "+y"}}
        step = {"name": "away", "contacts": ["sides"], "approach_distance": 0.05}
        task = {"name": "away", "controllet": "augmented", "contacts": sides, "subtasks": [step]}
        file = folder / "away.yaml"
        file.write_text(yaml.safe_dump(task))
        [result] = self.tasks.node.set_parameters([Parameter("file", value=str(file))])
        assert result.successful, result.reason

    def start(self):
        response = Trigger.Response()
        for _ in self.tasks.start(None, response):
            self.cell.step(1)
        return response

    def go_on(self, cycles=10):
        self.node.guard.call("step", self.tasks.step)
        self.cell.step(cycles)

    def last(self):
        """Return the newest state and reason, once they are heard."""
        newest = {}

        def is_over():
            newest.update((item.key, item.value) for one in self.received for item in one.values)
            return newest.get("state") in ("failed", "aborted")

        self.client.until(is_over, 10.0, "the end of the task")
        return newest["state"], newest["reason"]

    def close(self):
        self.tasks.close()
        self.tasks.node.destroy_node()
        self.node.destroy_node()


@pytest.fixture
def served(client, tmp_path):
    with Cell.from_yaml(ROOT / "config/box_task_sim.yaml", placement="inline") as cell:
        cell.step(10)
        served = Served(cell, tmp_path, client)
        yield served
        served.close()


def test_the_fault_of_an_arm_ends_the_task_and_none_begins_before_recovery(served):
    cell = served.cell
    assert served.start().success
    for _ in range(20):
        served.go_on()
    law = next(one for one in cell.loop.owners.active if one.spec.name == "augmented").law
    law.update, kept = None, law.update
    cell.step(1)
    law.update = kept
    served.go_on()
    state, reason = served.last()
    assert state == "failed"
    assert "has the fault" in reason
    assert set(cell.active) == HOLDS
    response = served.start()
    assert not response.success
    assert "Recover first" in response.message
    assert set(cell.active) == HOLDS
    cell.recover()
    cell.step(1)
    response = served.start()
    assert response.success, response.message


@pytest.mark.slow
def test_a_step_that_raised_was_taken_again_and_again(served):
    """What is no error of this package ended no task in a node, whose callbacks may raise."""
    assert served.start().success
    served.go_on()
    served.tasks.runner.execution.law = None
    served.go_on()
    state, reason = served.last()
    assert state == "aborted"
    assert "AttributeError" in reason
    assert set(served.cell.active) == HOLDS
    served.go_on()
    assert served.node.guard.caught["step"] == 1
    assert served.start().success


def test_a_stop_while_the_arms_change_hands_calls_the_start_off(served):
    cell = served.cell
    cell.hold()
    response, stopped = Trigger.Response(), Trigger.Response()
    start = served.tasks.start(None, response)
    next(start)  # the loop has not answered
    second = served.start()
    assert (second.success, second.message) == (False, "a task is starting; stop it first")
    for _ in served.tasks.stop(None, stopped):
        cell.step(1)
    for _ in start:
        cell.step(1)
    assert (stopped.success, stopped.message) == (True, "not started; every arm holds")
    assert not response.success
    assert response.message == "not started: as requested"
    assert served.last() == ("aborted", "not started: as requested")
    assert set(cell.active) == HOLDS
    assert served.start().success


def test_a_cancellation_while_the_arms_changed_hands_was_told_as_somebody_s_switch(served):
    """The law had the arms already when the goal was cancelled: the task ran for a moment."""
    cell, response = served.cell, Trigger.Response()
    cell.hold()
    start = served.tasks.start(None, response)
    while "augmented" not in cell.active:  # checked first
        next(start)
        cell.step(1)
    end = served.tasks.end("cancelled by its client")
    next(end)
    for _ in start:
        cell.step(1)
    for _ in end:
        cell.step(1)
    assert (response.success, response.message) == (False, "not started: cancelled by its client")
    assert served.last() == ("aborted", "not started: cancelled by its client")
    assert set(cell.active) == HOLDS
    served.go_on()
    assert served.start().success


def test_a_task_that_cannot_be_done_is_refused_before_the_arms_change_hands(served, tmp_path):
    file = tmp_path / "away.yaml"
    task = yaml.safe_load(file.read_text())
    far = {"frame": "left/tool", "position": [1.6, 0.0, 0.5]}
    task["subtasks"].append({"name": "far", "goals": [far]})
    file.write_text(yaml.safe_dump(task))
    served.cell.hold()
    response = served.start()
    assert not response.success
    assert response.message.startswith("far: no path: left would be ")
    assert set(served.cell.active) == HOLDS
