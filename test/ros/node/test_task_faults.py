# SPDX-License-Identifier: Apache-2.0
"""Tasks of a node under arm faults and unexpected exceptions, in lockstep."""

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
    """Task services of an in-process cell that the test steps."""

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

    def advance(self, cycles=10):
        self.node.guard.call("step", self.tasks.step)
        self.cell.step(cycles)

    def last(self):
        """Return the final state and reason once received."""
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


def test_arm_fault_ends_task_and_blocks_start_until_recovery(served):
    cell = served.cell
    assert served.start().success
    for _ in range(20):
        served.advance()
    law = next(one for one in cell.loop.owners.active if one.spec.name == "augmented").law
    law.update, kept = None, law.update
    cell.step(1)
    law.update = kept
    served.advance()
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
def test_task_step_that_raised_was_repeated(served):
    """A foreign exception did not end the task, as the node survives exceptions in callbacks."""
    assert served.start().success
    served.advance()
    served.tasks.runner.execution.client = None
    served.advance()
    state, reason = served.last()
    assert state == "aborted"
    assert "AttributeError" in reason
    assert set(served.cell.active) == HOLDS
    served.advance()
    assert served.node.guard.caught["step"] == 1
    assert served.start().success


def test_stop_during_controllet_switch_cancels_start(served):
    cell = served.cell
    cell.hold()
    response, stopped = Trigger.Response(), Trigger.Response()
    start = served.tasks.start(None, response)
    next(start)  # the loop has not responded
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


def test_cancellation_during_switch_was_reported_as_foreign_switch(served):
    """The controllet was already active at the cancellation, so the task ran briefly."""
    cell, response = served.cell, Trigger.Response()
    cell.hold()
    start = served.tasks.start(None, response)
    while "augmented" not in cell.active:  # the check precedes the switch
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
    served.advance()
    assert served.start().success


def test_infeasible_task_is_rejected_before_controllet_switch(served, tmp_path):
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
