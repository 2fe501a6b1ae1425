# SPDX-License-Identifier: Apache-2.0
"""A loop stopped by SIGSTOP: reported at once, without later effect of rejected requests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

import pytest
from builtin_interfaces.msg import Duration
from cell_names import LEFT_CARTESIAN, LEFT_JOINT
from controller_manager_msgs.srv import ListControllers, SwitchController
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.clock, pytest.mark.node]


@contextlib.contextmanager
def stopped(node):
    loop = node.loop_pid()
    os.kill(loop, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        os.kill(loop, signal.SIGCONT)


def withdrawn_requests(client, cell):
    """Return how many requests of any kind were withdrawn."""
    reported = client.diagnosis(cell.name)[1]["withdrawn requests"]
    return sum(map(int, re.findall(r"\d+", reported)))


def active(client, arm="left"):
    answer = client.call(ListControllers, f"{arm}/controller_manager/list_controllers")
    return {item.name for item in answer.controller if item.claimed_interfaces}


def settle(client, node):
    """Wait until diagnostics say that the loop runs."""
    client.until(
        lambda: "has not run" not in client.diagnosis(node.name)[0].message,
        10.0,
        "a running loop",
    )


def ask_to_switch(client, seconds, *names):
    return client.call(
        SwitchController,
        "controller_manager/switch_controller",
        activate_controllers=list(names),
        strictness=4,
        timeout=Duration(sec=int(seconds), nanosec=int(seconds % 1 * 1e9)),
    )


def test_stuck_loop_was_reported_as_on_time(cell, client):
    name = cell.name
    client.diagnosis(name)
    pose = client.newest(PoseStamped, "left/current_pose")
    client.publish("left/target_pose", pose)
    refused = int(client.diagnosis(f"{name}/left")[1]["rejected targets"])
    with stopped(cell) as since:
        client.until(
            lambda: client.diagnosis(name)[0].level == DiagnosticStatus.ERROR, 2.0, "an error"
        )
        assert time.monotonic() - since < 0.25  # 0.1 s plus transport on a busy machine
        assert re.search(r"\b0\.\d\d s\b", client.diagnosis(name)[0].message)
        states = client.listen(JointState, "left/joint_states")
        client.until(lambda: time.monotonic() - since > 0.3)
        before = states()
        for _ in range(20):
            client.publish("left/target_pose", pose)
        client.until(
            lambda: int(client.diagnosis(f"{name}/left")[1]["rejected targets"]) > refused,
            5.0,
            "rejected targets",
        )
        assert states() is before, "an old state was published as new"
        assert "has not run" in client.diagnosis(f"{name}/left")[1]["last rejection"]
    settle(client, cell)
    assert "the loop runs again" in cell.log


def test_rejected_switch_took_effect_later(cell, client):
    withdrawn = withdrawn_requests(client, cell)
    with stopped(cell):
        answer = ask_to_switch(client, 0.3, LEFT_JOINT)
        assert not answer.ok
        assert "withdrawn" in answer.message
        client.until(lambda: withdrawn_requests(client, cell) == withdrawn + 1)
    settle(client, cell)
    assert active(client) == {"cartesian_impedance_controller"}
    assert ask_to_switch(client, 1.0, LEFT_JOINT).ok
    assert active(client) == {"joint_impedance_controller"}


def test_rejected_parameters_took_effect_later(cell, client):
    def stiffness():
        answer = client.call(
            GetParameters, f"{LEFT_CARTESIAN}/get_parameters", names=["stiffness"]
        )
        return answer.values[0].double_array_value.tolist()

    before = stiffness()
    service = f"{LEFT_CARTESIAN}/set_parameters"
    requested = [Parameter("stiffness", value=[100.0] * 6).to_parameter_msg()]
    with stopped(cell):
        client.until(
            lambda: client.diagnosis(cell.name)[0].level == DiagnosticStatus.ERROR, what="an error"
        )
        result = client.call(SetParameters, service, parameters=requested).results[0]
        assert not result.successful
        assert "has not run" in result.reason
    settle(client, cell)
    assert stiffness() == before != [100.0] * 6


def test_stop_is_executed_once_loop_resumes(cell, client):
    """A stop is the only request that may take effect late."""
    with stopped(cell):
        client.diagnosis(cell.name)
        answer = client.call(Trigger, "stop")
        assert not answer.success
        assert "every arm holds" in answer.message
        refused = ask_to_switch(client, 1.0, LEFT_JOINT)
        assert not refused.ok
        assert "a stop waits" in refused.message
    settle(client, cell)
    client.until(lambda: active(client) == {"hold"}, 5.0, "hold")


@pytest.mark.parametrize("service", ["tare"])
def test_rejected_tare_took_effect_later(cell, client, service):
    assert client.call(Trigger, "stop").success
    with stopped(cell):
        answer = client.call(Trigger, f"left/{service}")
        assert not answer.success
        assert "withdrawn" in answer.message
    settle(client, cell)
    assert client.diagnosis(f"{cell.name}/left")[1]["tare [Nm]"] == "none"


def test_gripper_stop_on_stuck_loop_was_unanswered_and_executed_later(cell, client):
    withdrawn = withdrawn_requests(client, cell)
    with stopped(cell):
        answer = client.call(Trigger, "left/gripper/stop")
        assert not answer.success
        assert "has not run for" in answer.message
        assert "withdrawn" in answer.message
        client.until(lambda: withdrawn_requests(client, cell) == withdrawn + 1)
    settle(client, cell)
    assert client.call(Trigger, "left/gripper/open").success
