# SPDX-License-Identifier: Apache-2.0
"""Two cells, or a cell and a ros2_control robot, must not go by the same names.

Whoever calls ``left/controller_manager/switch_controller`` would get both of them, one of which
answers, and every target would move two arms.
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
from multipanda_py.ros.node.guard import BARE, GuardedNode
from multipanda_py.ros.node.load_parameters import NODE_ARGUMENTS, PARAMS_FILE, TYPE
from multipanda_py.ros.node.parameters import plain_node
from multipanda_py.ros.services.controllers import ControllerManager, reported_type
from multipanda_py.ros.services.hardware import HardwareServices

NAME = "controller_manager"
_LOADED_WITH = {
    PARAMS_FILE: "Parameter files that count when the law is loaded, which it is at the start.",
    NODE_ARGUMENTS: "The same as arguments: -p NAME:=VALUE, --params-file FILE.",
}


def manager_node(
    main: GuardedNode, cell: Cell, laws: Mapping[str, GuardedNode], arm: str = ""
) -> GuardedNode:
    """Return the node with the services and parameters of a controller manager.

    ``update_rate`` is the loop's [Hz]; ``NAME.type`` is the law of an instance, by which clients
    know what could be loaded; ``NAME.params_file`` and ``NAME.node_options_args`` say what it is
    loaded with.

    Args:
        main: The node that stands for the cell; gives the namespace, and is served with it.
        cell: The cell.
        laws: The nodes of the instances, by full name.
        arm: The arm, or an empty string for the whole cell.

    Thread: executor.
    """
    node = plain_node(NAME, main, arm)
    prefix = f"{arm}/{NAME}/" if arm else f"{NAME}/"
    node.says_refusals = True  # the spawner and ros2 control do not
    manager = ControllerManager(node, main, cell, laws, arm, prefix)
    HardwareServices(node, main, cell, [arm] if arm else cell.arms, prefix)
    _fixed(node, "update_rate", round(cell.config.cell.rate), "Rate of the control loop [Hz].")
    for info in manager.here():
        name = manager.name_here(info)
        _fixed(node, f"{name}.{TYPE}", info.type, "Control law.")
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


DISCOVERY = 3.5
"""Nodes that are there are found within this time: what Fast DDS has not told a newcomer at once
it repeats after three seconds [s]."""
FORGOTTEN = 22.0
"""Fast DDS forgets a process that has died within 20 s: who is listed for longer lives, also if
nothing of it is heard, because it has not told this process of all its services [s]."""
REPEAT = 0.5
"""After this long a request is repeated: a server may drop the first one it hears of [s]."""


def managers(node: Node, arms: Iterable[str]) -> Counter[str]:
    """Return how many nodes there are by each name of this cell's controller managers.

    Args:
        node: Its namespace is the cell's.
        arms: Of the cell.
    """
    root = node.get_namespace().rstrip("/")
    ours = {f"{root}/{NAME}", *(f"{root}/{arm}/{NAME}" for arm in arms)}
    names = (f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces())
    return Counter(name for name in names if name in ours)


def refuse_taken_names(node: Node, arms: Iterable[str]) -> None:
    """Refuse to begin where somebody else lives by a name of this cell's.

    A process that was killed may be listed for some seconds more, but does not answer: who begins
    again meanwhile waits until it is forgotten.

    Args:
        node: Its namespace is the cell's; the cell's controller managers are not made yet.
        arms: Of the cell.

    Raises:
        CellBusy: With the names.
    """
    listed = sorted(managers(node, arms))
    if not listed:
        return
    node.get_logger().info(
        f"somebody has {len(listed)} of this cell's names; asking whether it lives, or waiting "
        f"until it is forgotten, for {FORGOTTEN:g} s at most"
    )
    if living := _living(node, arms, listed):
        raise CellBusy(taken(node, living))


def taken(node: Node, names: Iterable[str]) -> str:
    """Return the sentence that says that somebody else has names of this cell's."""
    return (
        f"{', '.join(names)}: is there already on ROS domain {node.context.get_domain_id()}, and "
        "whoever asks for it would reach two robots; run this cell in a namespace of its own "
        "(-r __ns:=/NAME, namespace:=NAME) or on another domain (ROS_DOMAIN_ID)"
    )


def _living(main: Node, arms: Iterable[str], listed: list[str]) -> list[str]:
    """Return the names that are listed once somebody answers, or is listed for too long."""
    node = rclpy.create_node(f"{main.get_name()}_start", context=main.context, **BARE)
    executor = SingleThreadedExecutor(context=main.context)
    executor.add_node(node)
    try:
        clients = [
            node.create_client(ListControllers, f"{name}/list_controllers") for name in listed
        ]
        futures = [client.call_async(ListControllers.Request()) for client in clients]
        begun = asked = time.monotonic()
        while still := sorted(managers(main, arms)):
            now = time.monotonic()
            if any(one.done() for one in futures) or now - begun > FORGOTTEN:
                return still
            if now - asked > REPEAT:
                asked = now
                futures += [client.call_async(ListControllers.Request()) for client in clients]
            executor.spin_once(timeout_sec=0.05)
        return []
    finally:
        executor.shutdown()
        node.destroy_node()
