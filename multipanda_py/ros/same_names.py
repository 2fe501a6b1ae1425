# SPDX-License-Identifier: Apache-2.0
"""Two cells, or a cell and a ros2_control robot, must not go by the same names.

Whoever calls ``left/controller_manager/switch_controller`` would get both of them, one of which
answers, and every target would move two arms.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import rclpy
from controller_manager_msgs.srv import ListControllers
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from multipanda_py.exceptions import CellBusy
from multipanda_py.ros.manager_node import NAME

DISCOVERY = 3.5
"""Nodes that are there are found within this time: what Fast DDS has not told a newcomer at once
it repeats after three seconds [s]."""
PATIENCE = 4.0
"""How long somebody who has the name may take to answer; whoever does not is gone [s]."""
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


def refuse_taken_names(node: Node, arms: Iterable[str]) -> Counter[str]:
    """Refuse to begin where somebody else answers by a name of this cell's.

    A process that was killed is listed for some seconds more, but does not answer: who begins
    again after it waits for ``PATIENCE``, and goes on.

    Args:
        node: Its namespace is the cell's; the cell's controller managers are not made yet.
        arms: Of the cell.

    Returns:
        How many are listed by each name and gone.

    Raises:
        CellBusy: With the names.
    """
    gone = managers(node, arms)
    listed = sorted(gone)
    answering = _answering(node, listed) if listed else []
    if answering:
        raise CellBusy(taken(node, answering))
    if listed:
        node.get_logger().info(f"{', '.join(listed)}: listed, but does not answer; it is gone")
    return gone


def taken(node: Node, names: Iterable[str]) -> str:
    """Return the sentence that says that somebody else has names of this cell's."""
    return (
        f"{', '.join(names)}: is there already on ROS domain {node.context.get_domain_id()}, and "
        "whoever asks for it would reach two robots; run this cell in a namespace of its own "
        "(-r __ns:=/NAME, namespace:=NAME) or on another domain (ROS_DOMAIN_ID)"
    )


def _answering(main: Node, listed: list[str]) -> list[str]:
    """Return whose service answers in time."""
    node = rclpy.create_node(
        f"{main.get_name()}_start", context=main.context, use_global_arguments=False,
        enable_rosout=False, start_parameter_services=False,
        parameter_overrides=[Parameter("start_type_description_service", value=False)],
    )  # fmt: skip
    executor = SingleThreadedExecutor(context=main.context)
    executor.add_node(node)
    try:
        clients = [
            node.create_client(ListControllers, f"{name}/list_controllers") for name in listed
        ]
        futures = [[client.call_async(ListControllers.Request())] for client in clients]
        begun = asked = time.monotonic()
        while (now := time.monotonic()) - begun < PATIENCE:
            executor.spin_once(timeout_sec=0.05)
            if all(any(one.done() for one in several) for several in futures):
                break
            if now - asked > REPEAT:
                asked = now
                for client, several in zip(clients, futures):
                    several.append(client.call_async(ListControllers.Request()))
        found = zip(listed, futures)
        return [name for name, several in found if any(one.done() for one in several)]
    finally:
        executor.shutdown()
        node.destroy_node()
