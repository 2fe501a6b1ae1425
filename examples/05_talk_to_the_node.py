# SPDX-License-Identifier: Apache-2.0
"""Switch, move, set gains, list faults and recover from another process, without ros2cli.

.venv/bin/python examples/05_talk_to_the_node.py list
.venv/bin/python examples/05_talk_to_the_node.py switch dual_cartesian_impedance_controller
.venv/bin/python examples/05_talk_to_the_node.py move left 0 0 0.05
.venv/bin/python examples/05_talk_to_the_node.py faults
.venv/bin/python examples/05_talk_to_the_node.py recover left
.venv/bin/python examples/05_talk_to_the_node.py tare left
.venv/bin/python examples/05_talk_to_the_node.py set left/joint_impedance_controller \
    stiffness 600 600 600 600 250 150 50
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

FORCE_AUTO = 4
NEAR, TIMEOUT = 0.005, 20.0  # [m], [s]


def call(node: Node, kind: Any, name: str, **fields: Any) -> Any:
    """Call a service and return its response; exit with a message after a timeout."""
    client = node.create_client(kind, name)
    if not client.wait_for_service(timeout_sec=TIMEOUT):
        others = [other for other, _ in node.get_service_names_and_types()]
        others = [o for o in others if o.endswith(Path(name).name) and o != f"/{name}"]
        similar = ", ".join(get_close_matches(f"/{name}", others))
        similar = similar and f"similar services are {similar}"
        sys.exit(f"no service {name}: {similar or 'is the cell running, in this ROS domain?'}")
    future = client.call_async(kind.Request(**fields))
    rclpy.spin_until_future_complete(node, future, timeout_sec=30.0)
    if future.result() is None:
        sys.exit(f"{name} did not answer")
    return future.result()


def listen(node: Node, kind: Any, topic: str) -> list[Any]:
    """Wait for a message of a topic; return a list that always contains the newest one."""
    newest: list[Any] = []

    def store(message: Any) -> None:
        newest[:] = [message]

    node.create_subscription(kind, topic, store, 1)
    begin = time.monotonic()
    while not newest:
        rclpy.spin_once(node, timeout_sec=0.1)
        if time.monotonic() > begin + TIMEOUT:
            sys.exit(f"no message on {topic}: is the cell running, in this ROS domain?")
    return newest


def show_list(node: Node, options: argparse.Namespace) -> bool:
    """Print every controllet, its type and its state."""
    answer = call(node, ListControllers, "controller_manager/list_controllers")
    for state in answer.controller:
        print(f"{state.state:12s} {state.type:26s} {state.name}")
    return True


def switch(node: Node, options: argparse.Namespace) -> bool:
    """Activate controllets."""
    name = "controller_manager/switch_controller"
    answer = call(node, SwitchController, name, activate_controllers=options.names,
                  strictness=FORCE_AUTO)  # fmt: skip
    print(answer.message)
    return bool(answer.ok)


def move(node: Node, options: argparse.Namespace) -> bool:
    """Stream a pose until the arm reaches it or has a fault."""
    statuses = subscribe_diagnostics(node)
    measured = listen(node, PoseStamped, f"{options.arm}/current_pose")
    target = deepcopy(measured[0])
    goal = target.pose.position
    goal.x, goal.y, goal.z = goal.x + options.dx, goal.y + options.dy, goal.z + options.dz
    publisher = node.create_publisher(PoseStamped, f"{options.arm}/target_pose", 1)
    begin, distance, fault = time.monotonic(), math.inf, ""
    while distance > NEAR and not fault and time.monotonic() < begin + TIMEOUT:
        target.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(target)
        rclpy.spin_once(node, timeout_sec=0.05)
        here = measured[0].pose.position
        distance = math.dist((here.x, here.y, here.z), (goal.x, goal.y, goal.z))
        fault = fault_of(node, options.arm, statuses)
    seconds = time.monotonic() - begin
    print(f"{options.arm} is {1e3 * distance:.0f} mm from its target after {seconds:.1f} s")
    if fault:
        print(f"{options.arm}: {fault}. Clear it first: recover {options.arm}")
    elif distance > NEAR:
        show_faults(node, options)
    return distance <= NEAR


def subscribe_diagnostics(node: Node) -> dict[tuple[str, str], DiagnosticStatus]:
    """Return the newest status of each arm, by full name of the node and arm."""
    statuses: dict[tuple[str, str], DiagnosticStatus] = {}

    def store(message: DiagnosticArray) -> None:
        for status in message.status:
            if name := values_of(status).get("node"):
                statuses[name, Path(status.hardware_id).name] = status

    node.create_subscription(DiagnosticArray, "/diagnostics", store, 10)
    return statuses


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """Return the values of a status by their keys."""
    return {item.key: item.value for item in status.values}


def text_of(status: DiagnosticStatus) -> str:
    """Return the state of an arm and its reason as text."""
    values = values_of(status)
    reason = values["reason"] or values["last rejection"]
    return f"{status.message} ({reason})" if reason else str(status.message)


def fault_of(node: Node, arm: str, statuses: dict[tuple[str, str], DiagnosticStatus]) -> str:
    """Return the fault of an arm as text, or an empty string."""
    for sender in node.get_publishers_info_by_topic(f"{arm}/current_pose"):
        name = f"{sender.node_namespace.rstrip('/')}/{sender.node_name}"
        status = statuses.get((name, Path(arm).name))
        if status and status.level == DiagnosticStatus.ERROR:
            return text_of(status)
    return ""


def show_faults(node: Node, options: argparse.Namespace) -> bool:
    """Print the state of every arm of every cell, with its reason."""
    statuses = subscribe_diagnostics(node)
    listen(node, DiagnosticArray, "/diagnostics")
    end = time.monotonic() + 1.5  # Every cell publishes its diagnostics once a second.
    while time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.1)
    for _, status in sorted(statuses.items()):
        print(f"{status.hardware_id}: {text_of(status)}")
    return True


def recover(node: Node, options: argparse.Namespace) -> bool:
    """Clear the fault of an arm, which then holds."""
    answer = call(node, Trigger, f"{options.arm}/error_recovery")
    print(answer.message)
    return bool(answer.success)


def tare(node: Node, options: argparse.Namespace) -> bool:
    """Tare the external torques of an arm at rest without contact, or remove the tare."""
    answer = call(node, Trigger, f"{options.arm}/{'untare' if options.undo else 'tare'}")
    print(answer.message)
    return bool(answer.success)


def set_parameter(node: Node, options: argparse.Namespace) -> bool:
    """Set a parameter of a controllet."""
    values = options.values if len(options.values) > 1 else options.values[0]
    change = Parameter(options.parameter, value=values).to_parameter_msg()
    name = f"{options.controllet}/set_parameters_atomically"
    result = call(node, SetParametersAtomically, name, parameters=[change]).result
    print("set" if result.successful else result.reason)
    return bool(result.successful)


def main() -> int:
    """Run a command; return 1 if the node rejected it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)

    def add(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(function=function)
        return command

    add("list", show_list, "show every controllet and its state")
    command = add("switch", switch, "activate controllets; others of their arms are deactivated")
    command.add_argument("names", nargs="+")
    command = add("move", move, "move the tool of an arm along the axes of its base [m]")
    command.add_argument("arm")
    for axis in ("dx", "dy", "dz"):
        command.add_argument(axis, type=float)
    add("faults", show_faults, "show the state and the fault of every arm")
    add("recover", recover, "clear the fault of an arm").add_argument("arm")
    command = add("tare", tare, "tare the external torques of an arm without contact")
    command.add_argument("arm")
    command.add_argument("--undo", action="store_true", help="remove the tare")
    command = add("set", set_parameter, "set a parameter of a controllet")
    command.add_argument("controllet")
    command.add_argument("parameter")
    command.add_argument("values", nargs="+", type=float)
    options = parser.parse_args()
    rclpy.init()
    node = rclpy.create_node("talk_to_the_node")
    return 0 if options.function(node, options) else 1


if __name__ == "__main__":
    sys.exit(main())
