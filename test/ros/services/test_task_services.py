# SPDX-License-Identifier: Apache-2.0
"""Tasks of a running node for clients that name a file."""

from __future__ import annotations

import re
from functools import partial

import pytest
import yaml
from action_msgs.msg import GoalStatus
from cell_names import ARMS
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from goals import Goals
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.action import get_action_names_and_types
from rclpy.qos import DurabilityPolicy, QoSProfile
from repository import ROOT
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.clock, pytest.mark.node]

SPACE = "/doing"
IMPEDANCE = [f"{arm}/soft" for arm in ARMS]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
SIDES = {"sides": {"object": "box", "arms": list(ARMS), "side": "+y"}}


def near(distance, duration=0.6):
    """Return a subtask that ends in front of the box without contact."""
    name = f"to_{round(1e3 * distance)}_mm"
    return {
        "name": name,
        "contacts": ["sides"],
        "approach_distance": distance,
        "duration": duration,
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    cell = yaml.safe_load((ROOT / "config/box_task_sim.yaml").read_text())
    content = cell["/**"]["ros__parameters"]
    content["controllets"]["soft"] = {"type": "cartesian_impedance"}
    content["active"] = IMPEDANCE
    (folder / "cell.yaml").write_text(yaml.safe_dump(cell))
    task = {"name": "short", "controllet": "augmented", "contacts": SIDES}
    tasks = {
        "short": {**task, "subtasks": [near(0.03), near(0.05)]},
        "long": {**task, "name": "long", "subtasks": [near(0.02), near(0.08, 20.0)]},
        "wrong": {**task, "controllet": "soft", "subtasks": [near(0.03)]},
    }
    for name, data in tasks.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))
    return folder


@pytest.fixture(scope="module")
def node(node_process, files):
    node = node_process(files, file=files / "cell.yaml", remap=[f"__ns:={SPACE}"])
    yield node.wait_for("is active")
    assert node.end() == 0, node.log
    assert "Traceback" not in node.log, node.log


class Tasks:
    """A client of the task runner."""

    def __init__(self, client):
        self.client = client
        self.received = []
        client.node.create_subscription(
            DiagnosticStatus, f"{SPACE}/task_runner/state", self.received.append, LATCHED
        )

    def name(self, file):
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=str(file))
        [result] = self.client.call(
            SetParameters,
            f"{SPACE}/task_runner/set_parameters",
            parameters=[Parameter(name="file", value=value)],
        ).results
        return result

    def do(self, what):
        return self.client.call(Trigger, f"{SPACE}/task_runner/{what}")

    def begin(self, file):
        result = self.name(file)
        assert result.successful, result.reason
        self.received.clear()
        answer = self.do("start")
        assert answer.success, answer.message

    def values(self, message=None):
        return {item.key: item.value for item in (message or self.received[-1]).values}

    def until(self, state, timeout=40.0):
        self.client.until(
            lambda: self.received and self.values()["state"] == state,
            timeout,
            f"state {state}; received {self.received[-1:]}",
        )

    def until_moves(self):
        self.client.until(
            lambda: self.received and float(self.values()["progress"]) > 0.5, 40.0, "a motion"
        )


@pytest.fixture(scope="module")
def tasks(node, client):
    return Tasks(client)


@pytest.fixture
def soft(tasks, client):
    """Both arms under a controllet without task support."""
    answer = client.switch(IMPEDANCE, (), 4, SPACE)
    assert answer.ok, answer.message


def active(client):
    """Return the active controllets of the controller manager."""
    from controller_manager_msgs.srv import ListControllers

    found = client.call(ListControllers, f"{SPACE}/controller_manager/list_controllers")
    return {one.name for one in found.controller if one.state == "active"}


def test_task_is_completed_and_reports_progress(soft, tasks, files, client):
    tasks.begin(files / "short.yaml")
    tasks.until("done")
    assert {"augmented"} <= active(client)
    last = tasks.received[-1]
    assert (last.level, last.name, tasks.values()["reason"]) == (DiagnosticStatus.OK, "short", "")
    progress = [float(tasks.values(message)["progress"]) for message in tasks.received]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert any(0.0 < fraction < 0.5 for fraction in progress)
    steps = [tasks.values(message)["subtask"] for message in tasks.received]
    assert list(dict.fromkeys(steps)) == ["to_30_mm", "to_50_mm"]
    late = client.newest(DiagnosticStatus, f"{SPACE}/task_runner/state", qos=LATCHED)
    assert tasks.values(late)["state"] == "done"  # latched for late subscribers


def test_running_task_rejects_other_requests_and_stop_holds_arms(soft, tasks, files, client):
    tasks.begin(files / "long.yaml")
    tasks.until_moves()
    answer = tasks.do("start")
    assert (answer.success, answer.message) == (False, "long is running; stop it first")
    assert "long is running" in tasks.name(files / "short.yaml").reason
    pose = client.newest(PoseStamped, f"{SPACE}/left/current_pose")

    def rejection():
        return client.diagnosis(f"{tasks.received[-1].hardware_id}/left")[1]["last rejection"]

    client.stream(
        f"{SPACE}/left/target_pose",
        pose,
        lambda: "the task long runs" in rejection(),
        "a rejection",
    )
    assert tasks.do("pause").success
    tasks.until("paused")
    assert tasks.do("resume").success
    tasks.until("running")
    answer = tasks.do("stop")
    assert answer.success
    assert answer.message.startswith("to_80_mm: ")
    tasks.until("aborted")
    assert not active(client) & {"augmented", *IMPEDANCE}
    assert not tasks.do("stop").success


def test_external_controllet_deactivation_ends_task_in_hold(soft, tasks, files, client):
    tasks.begin(files / "long.yaml")
    tasks.until_moves()
    assert client.call(Trigger, f"{SPACE}/stop").success
    tasks.until("failed")
    assert "augmented " in tasks.values()["reason"]
    assert tasks.received[-1].level == DiagnosticStatus.ERROR
    assert not active(client) & {"augmented", *IMPEDANCE}


@pytest.fixture(scope="module")
def execute(node, client):
    action = pytest.importorskip("btcpp_ros2_interfaces.action")
    return Goals(client, action.ExecuteTree, f"{SPACE}/task_runner/execute"), action.ExecuteTree


def test_action_goal_spans_whole_task(soft, tasks, files, execute):
    goals, kind = execute
    status, result = goals.result(
        goals.send(kind.Goal(target_tree=str(files / "short.yaml"))), 60.0
    )
    assert (status, result.return_message) == (GoalStatus.STATUS_SUCCEEDED, "done")
    assert result.node_status.status == result.node_status.SUCCESS
    reported = [message.message for message in goals.feedback]
    assert any("to_30_mm" in words for words in reported)
    assert reported[-1].startswith("to_50_mm, 100 %: done")


@pytest.mark.long
def test_cancelled_goal_ends_in_hold_and_stopped_goal_reports_reason(
    soft, tasks, files, execute, client
):
    goals, kind = execute
    long = kind.Goal(target_tree=str(files / "long.yaml"))
    tasks.received.clear()
    handle = goals.send(long)
    tasks.until_moves()
    second = goals.result(goals.send(kind.Goal(target_tree=str(files / "short.yaml"))))
    assert second[0] == GoalStatus.STATUS_ABORTED
    assert second[1].return_message.startswith("long is running")
    requested = handle.cancel_goal_async()
    client.until(requested.done, 10.0, "a response to the cancel request")
    status, result = goals.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert result.node_status.status == result.node_status.FAILURE
    assert result.return_message.startswith("to_80_mm: ")
    assert not active(client) & {"augmented", *IMPEDANCE}
    tasks.received.clear()
    handle = goals.send(long)
    tasks.until_moves()
    assert tasks.do("stop").success
    status, result = goals.result(handle)
    assert (status, result.return_message) == (GoalStatus.STATUS_ABORTED, "to_80_mm: as requested")


def test_goal_without_valid_task_is_aborted_without_effect(soft, tasks, files, execute, client):
    goals, kind = execute
    before = active(client)
    for goal, reason in (
        ({"target_tree": "no_such_task"}, "allowed an absolute path, or a task of the package"),
        (
            {"target_tree": "carry_box", "payload": "{}"},
            "payload: got '{}', allowed an empty text",
        ),
        ({}, "got ''"),
    ):
        status, result = goals.run(kind.Goal(**goal))
        assert status == GoalStatus.STATUS_ABORTED
        assert reason in result.return_message
    assert active(client) == before


def test_rejected_task_has_no_effect(soft, tasks, files, client):
    before = active(client)
    for name, reason in (
        ("no_such_task", "allowed an absolute path, or a task of the package: carry_box, "),
        ("short.yaml", "allowed an absolute path"),
        (files, "Is a directory"),
        (files / "wrong.yaml", "soft"),
        ("polish", "plate"),
    ):
        result = tasks.name(name)
        assert not result.successful
        assert reason in result.reason, result.reason
    assert tasks.name("").successful
    answer = tasks.do("start")
    assert (answer.success, answer.message) == (False, "no task: set the parameter file first")
    assert tasks.name("carry_box").successful  # from the share folder of the package
    assert active(client) == before


def test_interface_page_lists_task_endpoints(node, client):
    page = (ROOT / "doc/ros_interface.md").read_text()
    section = re.search(r"\n## Tasks.*?(?=\n## )", page, re.S)[0]
    listed = dict(re.findall(r"^\| `(task_runner/\w+)` \| `([\w/]+)`", section, re.M))
    requested = (client.node.get_service_names_and_types, client.node.get_topic_names_and_types)
    offered = {
        name.removeprefix(f"{SPACE}/"): types[0]
        for query in (*requested, partial(get_action_names_and_types, client.node))
        for name, types in query()
        if name.startswith(f"{SPACE}/task_runner/") and not re.search("param|/_action/", name)
    }
    assert listed == offered


@pytest.mark.slow
def test_node_end_left_task_client_without_result(soft, tasks, files, node, execute, client):
    """Last test of the file, as it ends the node."""
    goals, kind = execute
    tasks.received.clear()
    handle = goals.send(kind.Goal(target_tree=str(files / "long.yaml")))
    future = handle.get_result_async()
    tasks.until_moves()
    assert node.end() == 0, node.log
    assert "aborted: the node ends" in node.log
    client.until(future.done, 5.0, "a result")
    assert future.result().status == GoalStatus.STATUS_ABORTED
    assert future.result().result.return_message == "to_80_mm: the node ends"
    tasks.until("aborted", 5.0)
