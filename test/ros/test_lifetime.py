# SPDX-License-Identifier: Apache-2.0
"""Start, rejected start, end and loss of the node."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from controller_manager_msgs.srv import ListControllers
from long_form import long_form
from processes import TIMEOUT_SCALE, descendants, let_pass
from rcl_interfaces.srv import GetParameters
from requirements import needs_two_cores
from sensor_msgs.msg import JointState

pytestmark = [pytest.mark.clock, pytest.mark.node]

SMALL = """
/**:
  ros__parameters:
    cell: {name: small}
    arms:
      only: {backend: mock, gripper: false}
    controllets:
      plain: {type: joint_impedance, features: []}
    active: [only/plain]
"""
FAULTY = """
/**:
  ros__parameters:
    cell: {rate: 1.0}
    arms:
      left: {backend: mock, model: fr4}
      right: {backend: mock, colour: red}
"""


@pytest.fixture
def file(tmp_path):
    """A function that writes a cell file."""

    def write(text):
        path = tmp_path / "cell.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def exit_code(node):
    return node.process.wait(20.0 * TIMEOUT_SCALE)


@pytest.mark.parametrize(
    "number", long_form((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), keep=[signal.SIGINT])
)
def test_signal_ends_node_without_traceback(start, file, number):
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup makes the child ignore it
    node = start(file=file(SMALL))
    signal.signal(signal.SIGHUP, hangup)
    node.wait_for("is active")
    assert "arms only; controllets only/plain;" in node.log
    loop = node.loop_pid()
    assert node.end(number) == 0
    assert f"{number.name}: " in node.log
    assert "Traceback" not in node.log
    node.wait_for_end_of(loop)


@pytest.mark.long
def test_node_shutdown_ended_in_segmentation_fault(start, client, file):
    """The final garbage collection freed objects that middleware threads still used."""
    lister = client.node.create_client(ListControllers, "controller_manager/list_controllers")
    requested, targets = ListControllers.Request(), JointState()
    publisher = client.node.create_publisher(JointState, "only/target_joint", 1)

    def traffic_until(condition):
        def send():
            publisher.publish(targets)
            lister.call_async(requested)
            return condition()

        client.until(send, 40.0)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        node = start(file=file(SMALL))
        traffic_until(lambda node=node: "is active" in node.log)
        node.process.send_signal(number)
        traffic_until(lambda node=node: node.process.poll() is not None)
        assert node.process.returncode == 0, node.log
        assert f"{number.name}: " in node.log
        assert "Fatal Python error" not in node.log


def test_every_configuration_fault_is_named(start, file):
    node = start(file=file(FAULTY))
    assert exit_code(node) == 1
    for where in ("cell.rate", "arms.left.model", "arms.right.colour"):
        lines = [line for line in node.log.splitlines() if where in line]
        assert len(lines) == 1, node.log
        assert "FATAL" in lines[0]
    assert "Traceback" not in node.log


OVERRIDES = [
    ("cell.placement:=inline", "Set process or thread"),
    ("max_target_age:=-1.0", "max_target_age"),
    ("active:=[only/none]", "only/none"),
    ("cell:=3", "cell"),
]


@pytest.mark.long
@pytest.mark.parametrize(("override", "reason"), long_form(OVERRIDES, keep=OVERRIDES[1:2]))
def test_invalid_override_is_named(start, file, override, reason):
    node = start(override, file=file(SMALL))
    assert exit_code(node) == 1
    assert reason in node.log
    assert "FATAL" in node.log
    assert "Traceback" not in node.log


@pytest.mark.long
def test_missing_parameter_file_is_reported(start, tmp_path):
    node = start(file=tmp_path / "missing.yaml")
    assert exit_code(node) == 1
    assert "missing.yaml" in node.log
    assert "FATAL" in node.log
    assert "Traceback" not in node.log


@pytest.mark.long
def test_duplicate_key_is_rejected_by_node(start, file):
    """ROS 2 silently merges the last value with parts of the first."""
    twice = SMALL.replace(
        "    arms:\n", "    cell: {rate: 500.0}\n    cell: {rate: 400.0}\n    arms:\n"
    )
    node = start(file=file(twice))
    assert exit_code(node) == 1
    assert "a key appears twice" in node.log
    assert "FATAL" in node.log
    assert "Traceback" not in node.log


@pytest.mark.long
def test_overlong_cell_name_is_rejected_with_reason(start, file):
    node = start(file=file(SMALL), name="a" * 240)
    assert exit_code(node) == 1
    assert "cell.name: got 'aaa" in node.log
    assert "at most 64 characters" in node.log
    assert "Traceback" not in node.log


@pytest.mark.parametrize("after", long_form((0.4, 0.8, 1.1), keep=[0.8]))
def test_kill_during_start_leaves_no_processes(start, file, after):
    node = start(file=file(SMALL))
    let_pass(after)  # at different points of a start of about one second
    left = descendants(node.process.pid)
    node.end(signal.SIGKILL)
    for pid in left:
        node.wait_for_end_of(pid)
    assert "Traceback" not in node.log


@pytest.mark.long
def test_misspelt_group_causes_warning(start, file):
    text = SMALL.replace("    active:", "    contrllets: {x: 1}\n    active:")
    node = start(file=file(text)).wait_for("is active")
    assert "contrllets.x " in node.log


@pytest.mark.long
def test_second_instance_of_cell_is_rejected(start, file):
    first = start(file=file(SMALL)).wait_for("is active")
    second = start(file=file(SMALL), name=first.name)
    assert exit_code(second) == 1
    assert f"process {first.process.pid}" in second.log
    assert "Traceback" not in second.log
    assert first.process.poll() is None


@pytest.mark.long
def test_loop_ends_after_owner_is_killed(start):
    node = start().wait_for("is active")
    loop = node.loop_pid()
    assert node.end(signal.SIGKILL) == -signal.SIGKILL
    node.wait_for_end_of(loop)
    assert f"'{node.name}': " in node.log
    start(name=node.name).wait_for("is active")


def test_node_ends_after_loop_is_killed(start, file):
    node = start(file=file(SMALL)).wait_for("is active")
    os.kill(node.loop_pid(), signal.SIGKILL)
    assert exit_code(node) == 1
    assert "was killed by SIGKILL" in node.log
    assert "FATAL" in node.log
    assert "Traceback" not in node.log


@pytest.mark.long
@needs_two_cores
def test_node_threads_avoid_core_of_loop(start, file):
    node = start(file=file(SMALL)).wait_for("is active")
    core = os.sched_getaffinity(node.loop_pid())
    assert len(core) == 1
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        assert not core & os.sched_getaffinity(int(task.name))


@pytest.mark.long
def test_namespace_name_and_overrides(start, client):
    law = "cartesian_impedance_controller:stiffness:=[350.0, 350.0, 350.0, 30.0, 30.0, 30.0]"
    lab = start(
        "arms.left.gripper:=false", law, "nobody:x:=1", remap=["__ns:=/lab", "__node:=boss"]
    )
    lab.wait_for("is active")
    answer = client.call(ListControllers, "/lab/left/controller_manager/list_controllers")
    assert "cartesian_impedance_controller" in {item.name for item in answer.controller}
    node = "/lab/left/cartesian_impedance_controller"
    values = client.call(GetParameters, f"{node}/get_parameters", names=["stiffness"]).values
    assert values[0].double_array_value[0] == 350.0, "-p NODE:NAME:=VALUE was silently ignored"
    assert "/**/nobody " in lab.log
    names = client.newest(JointState, "/lab/joint_states").name
    assert "left_fr3_finger_joint1" not in names
    assert "right_fr3_finger_joint1" in names
