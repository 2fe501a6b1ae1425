# SPDX-License-Identifier: Apache-2.0
"""Controller-manager nodes of a cell, and detection of duplicate node names.

Two cells, or a cell and a ros2_control robot, must not have the same names. Otherwise a call of
``left/controller_manager/switch_controller`` would reach both of them, only one would answer, and
every target would move two arms.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import rclpy
from controller_manager_msgs.srv import ListControllers
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.exceptions import CellBusy
from multipanda_py.ros.node.guard import BARE_NODE_ARGUMENTS, GuardedNode
from multipanda_py.ros.node.load_parameters import NODE_ARGUMENTS, PARAMS_FILE, TYPE
from multipanda_py.ros.node.parameters import plain_node
from multipanda_py.ros.services.controllers import ControllerManager, reported_type
from multipanda_py.ros.services.hardware import HardwareServices

NAME = "controller_manager"
_LOADED_WITH = {
    PARAMS_FILE: "Parameter files that are applied when the controllet is loaded.",
    NODE_ARGUMENTS: "Arguments that are applied at the load: -p NAME:=VALUE, --params-file FILE.",
}


def manager_node(
    main: GuardedNode, cell: Cell, laws: Mapping[str, GuardedNode], arm: str = ""
) -> GuardedNode:
    """Return the node with the services and parameters of a controller manager.

    ``update_rate`` is the rate of the loop [Hz]. ``NAME.type`` is the type of a controllet, so
    that clients find what can be loaded. ``NAME.params_file`` and ``NAME.node_options_args`` are
    its load arguments.

    Args:
        main: Main node of the cell, which determines the namespace.
        cell: Cell of the node.
        laws: Nodes of the controllets, by full name.
        arm: Name of the arm, or an empty string for the whole cell.

    Thread: executor.
    """
    node = plain_node(NAME, main, arm)
    prefix = f"{arm}/{NAME}/" if arm else f"{NAME}/"
    node.says_refusals = True  # The spawner and ros2 control show no reason of a rejection.
    manager = ControllerManager(node, main, cell, laws, arm, prefix)
    HardwareServices(node, main, cell, [arm] if arm else cell.arms, prefix)
    _fixed(node, "update_rate", round(cell.config.cell.rate), "Rate of the control loop [Hz].")
    for info in manager.here():
        name = manager.name_here(info)
        _fixed(node, f"{name}.{TYPE}", info.type, "Type of the controllet.")
        node.same_values[f"{name}.{TYPE}"] = (reported_type(info.type),)
        for leaf, text in _LOADED_WITH.items() if info.name in laws else ():
            node.declare_parameter(f"{name}.{leaf}", [""], ParameterDescriptor(description=text))
    return node


def _fixed(node: GuardedNode, name: str, value: Any, text: str) -> None:
    node.declare_parameter(
        name,
        value,
        ParameterDescriptor(
            description=text, read_only=True, additional_constraints="set in the cell file"
        ),
    )


DISCOVERY_TIMEOUT = 3.5
"""Maximum time to find all running nodes [s]. Fast DDS repeats lost announcements after 3 s."""
MAX_PROCESS_AGE = 22.0
"""Time after which a listed process is considered alive [s]. Fast DDS forgets a dead process
within 20 s. A live process may not respond, because its services are not yet announced here."""
REPEAT_PERIOD = 0.5
"""Period of repeated requests [s]. A server may drop the first request of a new client."""


def managers(node: Node, arms: Iterable[str]) -> Counter[str]:
    """Count the nodes with names of this cell's controller managers.

    Args:
        node: Node in the namespace of the cell.
        arms: Names of the arms.
    """
    root = node.get_namespace().rstrip("/")
    ours = {f"{root}/{NAME}", *(f"{root}/{arm}/{NAME}" for arm in arms)}
    names = (f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces())
    return Counter(name for name in names if name in ours)


def check_name_conflicts(node: Node, arms: Iterable[str]) -> None:
    """Check that no other process uses names of this cell.

    A killed process may be listed for some more seconds, but does not answer. A restart within
    that time waits until the middleware forgets it.

    Args:
        node: Node in the namespace of the cell, before the controller managers are created.
        arms: Names of the arms.

    Raises:
        CellBusy: If another process is alive; the message has the names.
    """
    listed = sorted(managers(node, arms))
    if not listed:
        return
    node.get_logger().info(
        f"{len(listed)} names of this cell are in use; checking for up to {MAX_PROCESS_AGE:g} s "
        f"whether "
        "their process is alive"
    )
    if living := _living(node, arms, listed):
        raise CellBusy(conflicting_names(node, living))


def conflicting_names(node: Node, names: Iterable[str]) -> str:
    """Return the message that another process uses names of this cell."""
    return (
        f"{', '.join(names)}: exists already on ROS domain {node.context.get_domain_id()}, and "
        "requests would reach two robots. Run this cell in another namespace "
        "(-r __ns:=/NAME, namespace:=NAME) or on another domain (ROS_DOMAIN_ID)"
    )


def _living(main: Node, arms: Iterable[str], listed: list[str]) -> list[str]:
    """Wait for an answer of the listed nodes; return the names that belong to a live process.

    A node that does not answer counts as alive if it is still listed after ``MAX_PROCESS_AGE``.
    """
    node = rclpy.create_node(
        f"{main.get_name()}_start", context=main.context, **BARE_NODE_ARGUMENTS
    )
    executor = SingleThreadedExecutor(context=main.context)
    executor.add_node(node)
    try:
        clients = [
            node.create_client(ListControllers, f"{name}/list_controllers") for name in listed
        ]
        futures = [client.call_async(ListControllers.Request()) for client in clients]
        started = requested_at = time.monotonic()
        while still := sorted(managers(main, arms)):
            now = time.monotonic()
            if any(one.done() for one in futures) or now - started > MAX_PROCESS_AGE:
                return still
            if now - requested_at > REPEAT_PERIOD:
                requested_at = now
                futures += [client.call_async(ListControllers.Request()) for client in clients]
            executor.spin_once(timeout_sec=0.05)
        return []
    finally:
        executor.shutdown()
        node.destroy_node()
