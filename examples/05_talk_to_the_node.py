# SPDX-License-Identifier: Apache-2.0
"""List and switch controllets and set gains from another process, without ros2cli.

.venv/bin/python examples/05_talk_to_the_node.py list
.venv/bin/python examples/05_talk_to_the_node.py switch dual_cartesian_impedance_controller
.venv/bin/python examples/05_talk_to_the_node.py set left/joint_impedance_controller \
    stiffness 600 600 600 600 250 150 50
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers, SwitchController
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter

FORCE_AUTO = 4


def call(node: Any, kind: Any, name: str, request: Any) -> Any:
    """Call a service and return its answer, or end with one line if nobody answers."""
    client = node.create_client(kind, name)
    if not client.wait_for_service(timeout_sec=5.0):
        sys.exit(f"no service {name}: is the cell running, in this ROS domain?")
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future, timeout_sec=5.0)
    if future.result() is None:
        sys.exit(f"{name} did not answer")
    return future.result()


def main() -> int:
    """Do what was asked for; 1 if the node refused it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="show every controllet and its state")
    switch = commands.add_parser("switch", help="activate controllets, whoever has their arms")
    switch.add_argument("names", nargs="+")
    setting = commands.add_parser("set", help="set a parameter of a controllet")
    setting.add_argument("controllet")
    setting.add_argument("parameter")
    setting.add_argument("values", nargs="+", type=float)
    options = parser.parse_args()
    rclpy.init()
    node = rclpy.create_node("talk_to_the_node")
    if options.command == "list":
        answer = call(
            node, ListControllers, "controller_manager/list_controllers", ListControllers.Request()
        )
        for state in answer.controller:
            print(f"{state.state:12s} {state.type:26s} {state.name}")
        return 0
    if options.command == "switch":
        request = SwitchController.Request(
            activate_controllers=options.names, strictness=FORCE_AUTO
        )
        answer = call(node, SwitchController, "controller_manager/switch_controller", request)
        print(answer.message)
        return 0 if answer.ok else 1
    values = options.values if len(options.values) > 1 else options.values[0]
    change = Parameter(options.parameter, value=values).to_parameter_msg()
    answer = call(
        node, SetParametersAtomically, f"{options.controllet}/set_parameters_atomically",
        SetParametersAtomically.Request(parameters=[change]),
    )  # fmt: skip
    print("set" if answer.result.successful else answer.result.reason)
    return 0 if answer.result.successful else 1


if __name__ == "__main__":
    sys.exit(main())
