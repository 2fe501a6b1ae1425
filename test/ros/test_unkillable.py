# SPDX-License-Identifier: Apache-2.0
"""Requests that ended the node, or made it deaf."""

from __future__ import annotations

import os
import signal
import time

import pytest
import rclpy
from builtin_interfaces.msg import Duration
from controller_manager_msgs.srv import ListControllers, SwitchController
from processes import wait_until
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config import CellConfig
from multipanda_py.loop.events import Event
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import every, make_executor
from multipanda_py.testing import simple_cell

LAW = "left/cartesian_impedance_controller"


def unknown_type(name):
    message = Parameter(name, value=1.0).to_parameter_msg()
    message.value.type = 255
    return message


@pytest.mark.parametrize("node", [LAW, "left/franka", "{name}"])
def test_a_parameter_of_unknown_type_ended_the_node(cell, client, node):
    node = node.format(name="multimode_controller")
    asked = [unknown_type("stiffness")]
    results = client.call(SetParameters, f"{node}/set_parameters", parameters=asked).results
    assert not results[0].successful
    assert results[0].reason == "stiffness: value.type: got 255, allowed 0 to 9"
    result = client.call(
        SetParametersAtomically, f"{node}/set_parameters_atomically", parameters=asked
    ).result
    assert not result.successful
    assert cell.process.poll() is None


def test_a_gripper_that_succeeded_and_then_failed_ended_the_node(cell, client):
    """One line logged at two levels, which rclpy refuses."""
    with_loop_stopped = cell.loop_pid()
    assert client.call(Trigger, "left/gripper/open").success
    os.kill(with_loop_stopped, signal.SIGSTOP)
    try:
        time.sleep(0.1)
        refused = client.call(Trigger, "left/gripper/open")
    finally:
        os.kill(with_loop_stopped, signal.SIGCONT)
    assert not refused.success
    assert "has not run" in refused.message
    for name in ("open", "close", "stop", "open"):
        assert client.call(Trigger, f"left/gripper/{name}").message
    assert cell.process.poll() is None
    assert "failed, and the node goes on" not in cell.log


def test_a_switch_with_a_long_timeout_made_the_node_deaf(start, client):
    node = start(remap=["__ns:=/deaf"]).wait_for("is active")
    switch = client.node.create_client(
        SwitchController, "/deaf/controller_manager/switch_controller"
    )
    client.until(switch.service_is_ready, 10.0, "the service")
    lister = "/deaf/left/controller_manager/list_controllers"
    client.call(ListControllers, lister)
    loop = node.loop_pid()
    os.kill(loop, signal.SIGSTOP)
    try:
        future = switch.call_async(
            SwitchController.Request(
                activate_controllers=["left/joint_impedance_controller"],
                strictness=4,
                timeout=Duration(sec=100_000),
            )
        )
        client.until(lambda: "has not run" in node.log, 5.0, "a log entry")
        times = []
        for _ in range(5):
            begun = time.monotonic()
            client.call(ListControllers, lister)
            times.append(time.monotonic() - begun)
        assert min(times) < 0.05  # with the client's way, on a busy machine
        assert not future.done()
        node.process.send_signal(signal.SIGTERM)
        client.until(lambda: node.process.poll() is not None, 12.0, "the end of the node")
    finally:
        if node.process.poll() is None:
            os.kill(loop, signal.SIGCONT)
    assert node.process.returncode == 0, node.log
    assert "SIGTERM: the cell is closed" in node.log


def test_callbacks_that_were_stuck_looked_alive():
    """The heartbeat came from a thread of its own, which says nothing of the executor."""
    config = simple_cell().config.model_dump()
    config["cell"] |= {"placement": "thread", "heartbeat_timeout": 0.2, "name": "stuck_callbacks"}
    with Cell(CellConfig.from_dict(config)) as cell:
        cell.beat_by_hand()
        for _ in range(20):
            cell.beat()
            time.sleep(0.02)
        assert not [e for e in cell.events() if e.event is Event.CLIENT_SILENT]
        time.sleep(0.4)  # nobody turns the executor
        assert [e for e in cell.events() if e.event is Event.CLIENT_SILENT]


def test_an_exception_in_a_callback_ended_the_node(ros, capfd):
    """Logged once with its trace, counted, answered; the next callback is served."""
    node = GuardedNode("guarded_test")
    client = rclpy.create_node("guarded_test_client")
    executor = make_executor()
    calls = []

    def fail(*args):
        calls.append(args)
        raise KeyError("what nobody thought of")

    def work(request, response):
        yield
        fail(request)

    try:
        node.create_service(Trigger, "guarded/fails", fail)
        node.serve(Trigger, "guarded/fails_late", work)
        node.create_subscription(Float64, "guarded/topic", fail, 1)
        every(node, 0.02, fail)
        for one in (node, client):
            executor.add_node(one)
        for name in ("fails", "fails", "fails_late"):
            caller = client.create_client(Trigger, f"guarded/{name}")
            assert caller.wait_for_service(10.0)
            future = caller.call_async(Trigger.Request())
            wait_until(future.done, 10.0, lambda: "an answer", lambda: executor.spin_once(0.01))
            assert not future.result().success
            assert "what nobody thought of" in future.result().message
        publisher = client.create_publisher(Float64, "guarded/topic", 1)

        def publish():
            publisher.publish(Float64(data=1.0))
            executor.spin_once(0.01)

        wait_until(lambda: node.guard.caught["guarded/topic"] > 1, 10.0, lambda: "topic", publish)
        assert node.guard.caught["guarded/fails"] >= 2
        assert node.guard.caught["guarded/fails_late"] == 1
        assert node.guard.caught.total() == len(calls)
        assert not node.guard.failure
        assert capfd.readouterr().err.count("guarded/fails failed, and the node goes on") == 1
        node.guard.call("loop", lambda: Cell(simple_cell().config).check())
        assert "not started" in node.guard.failure  # what ends the node, by its class
    finally:
        executor.shutdown()
        client.destroy_node()
        node.destroy_node()
