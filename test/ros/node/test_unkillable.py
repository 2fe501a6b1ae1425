# SPDX-License-Identifier: Apache-2.0
"""Requests that ended the node or made it unresponsive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import rclpy
from builtin_interfaces.msg import Duration
from cell_names import LEFT_CARTESIAN
from controller_manager_msgs.srv import ListControllers, SwitchController
from diagnostic_msgs.msg import DiagnosticStatus
from processes import children, is_running, let_pass, runs_module, wait_until
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from repository import DUAL_SIM, ROOT
from requirements import needs_pylibfranka
from robots import unused_address
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.events import Event
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.running import every, make_executor
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.node


REAL = """
/**:
  ros__parameters:
    arms:
      left:
        backend: franka
        robot_ip: "{ip}"
        gripper: false
        franka: {{answer_budget: 0.4, priority: 0, model_check: "off"}}
    realtime: {{priority: 0, cpu: -2}}
    cell: {{heartbeat_timeout: 5.0}}
"""


class NodeWithPipe:
    """A node whose output pipe is never read."""

    def __init__(self):
        self.space = f"/unread_{os.getpid()}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "multipanda_py.ros.node.node", "--ros-args",
             "--params-file", str(DUAL_SIM), "-p", f"cell.name:=unread_{os.getpid()}",
             "-r", f"__ns:={self.space}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def unread(client):
    node = NodeWithPipe()
    yield node
    if node.process.poll() is None:
        node.process.kill()
    node.process.wait()
    node.process.stdout.close()


def unknown_type(name):
    message = Parameter(name, value=1.0).to_parameter_msg()
    message.value.type = 255
    return message


@pytest.mark.clock
@pytest.mark.parametrize("node", [LEFT_CARTESIAN, "left/franka", "{name}"])
def test_parameter_of_unknown_type_ended_node(cell, client, node):
    node = node.format(name="multimode_controller")
    requested = [unknown_type("stiffness")]
    results = client.call(SetParameters, f"{node}/set_parameters", parameters=requested).results
    assert not results[0].successful
    assert results[0].reason.startswith("stiffness: value.type: got 255")
    result = client.call(
        SetParametersAtomically, f"{node}/set_parameters_atomically", parameters=requested
    ).result
    assert not result.successful
    assert cell.process.poll() is None


@pytest.mark.clock
def test_gripper_success_then_failure_ended_node(cell, client):
    """rclpy raises when one line of code logs at two levels."""
    loop_process = cell.loop_pid()
    assert client.call(Trigger, "left/gripper/open").success
    os.kill(loop_process, signal.SIGSTOP)
    try:
        client.until(
            lambda: client.diagnosis(cell.name)[0].level == DiagnosticStatus.ERROR, what="an error"
        )
        refused = client.call(Trigger, "left/gripper/open")
    finally:
        os.kill(loop_process, signal.SIGCONT)
    assert not refused.success
    assert "has not run" in refused.message
    for name in ("open", "close", "stop", "open"):
        assert client.call(Trigger, f"left/gripper/{name}").message
    assert cell.process.poll() is None
    assert "The node continues" not in cell.log


@pytest.mark.long
@pytest.mark.clock
def test_switch_with_long_timeout_made_node_unresponsive(start, client):
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
        assert min(times) < 0.05  # round trip on a busy machine
        assert not future.done()
        node.process.send_signal(signal.SIGTERM)
        client.until(lambda: node.process.poll() is not None, 12.0, "the end of the node")
    finally:
        if node.process.poll() is None:
            os.kill(loop, signal.SIGCONT)
    assert node.process.returncode == 0, node.log
    assert "SIGTERM: " in node.log


@pytest.mark.long
@pytest.mark.clock
def test_unread_output_blocked_node(unread, client):
    """Rejections repeated all names, 226 kB, into a pipe of 64 kB."""
    node = unread
    lister = f"{node.space}/left/controller_manager/list_controllers"
    names = [f"left/{'x' * 200}{number}" for number in range(1000)]
    client.call(ListControllers, lister)
    loop = next(
        pid
        for pid in children(node.process.pid)
        if runs_module(pid, "multipanda_py.realtime.process")
    )
    for _ in range(40):
        answer = client.switch(names, (), 2, node.space)
        assert not answer.ok
        assert len(answer.message) < 4200
        assert "characters left out" in answer.message
    assert client.call(ListControllers, lister).controller
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(10.0) == 0
    assert not is_running(loop)


@pytest.mark.long
@pytest.mark.clock
@needs_pylibfranka
def test_stop_waited_for_stuck_robot(start, client, tmp_path):
    ip = unused_address()
    file = tmp_path / "cell.yaml"
    file.write_text(REAL.format(ip=ip))
    with FciSim([ip], lockstep=True) as sim:
        node = start(file=file, remap=["__ns:=/stuck_robot"]).wait_for("is active")
        client.until(lambda: sim.admin(ip, "stats")["mode"] == "move", 15.0, "torque")
        stop = "/stuck_robot/stop"
        assert client.call(Trigger, stop).success
        service = "/stuck_robot/left/franka/set_parameters"
        caller = client.node.create_client(SetParameters, service)
        client.until(caller.service_is_ready, 10.0, service)
        robot = sim.process.pid
        os.kill(robot, signal.SIGSTOP)
        try:
            requested = [Parameter("load_mass", value=0.5).to_parameter_msg()]
            future = caller.call_async(SetParameters.Request(parameters=requested))
            times = []
            let_pass(0.05)  # the settings arrive first and stay unanswered
            for _ in range(10):
                begun = time.monotonic()
                assert client.call(Trigger, stop).success
                times.append(time.monotonic() - begun)
                assert not future.done()
        finally:
            os.kill(robot, signal.SIGCONT)
        assert sorted(times)[5] < 0.02, times  # round trip on a busy machine
        assert max(times) < 0.3, times
        client.until(future.done, 20.0, "a response to the settings")
        node.end()


def wait_for_cycles(cell, count):
    begin = cell.latest_record()["cycle"]
    wait_until(lambda: cell.latest_record()["cycle"] >= begin + count)


def test_stuck_callbacks_looked_alive():
    """The heartbeat came from a separate thread, independent of the executor."""
    config = simple_cell().config.model_dump()
    config["cell"] |= {"placement": "thread", "heartbeat_timeout": 0.2, "name": "stuck_callbacks"}
    cell = Cell(CellConfig.from_dict(config))
    cell.manual_heartbeat()
    with cell:
        # No timeout before the first heartbeat, as a start on a busy machine may be slow.
        wait_for_cycles(cell, 400)
        assert not [e for e in cell.events() if e.event is Event.CLIENT_SILENT]
        for _ in range(20):
            cell.send_heartbeat()
            wait_for_cycles(cell, 20)
        assert not [e for e in cell.events() if e.event is Event.CLIENT_SILENT]
        # The executor does not spin.
        wait_until(lambda: any(e.event is Event.CLIENT_SILENT for e in cell.events()))


def test_exception_in_callback_ended_node(ros, capfd):
    """The exception is logged once, counted and answered; later callbacks are served."""
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
            wait_until(future.done, 10.0, lambda: "a response", lambda: executor.spin_once(0.01))
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
        assert capfd.readouterr().err.count("guarded/fails failed") == 1
        node.guard.call("loop", lambda: Cell(simple_cell().config).check())
        assert "not started" in node.guard.failure  # a class of exceptions that ends the node
    finally:
        executor.shutdown()
        client.destroy_node()
        node.destroy_node()
