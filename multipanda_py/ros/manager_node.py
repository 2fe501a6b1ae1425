# SPDX-License-Identifier: Apache-2.0
"""The node ``controller_manager`` of a cell or of one arm, which clients look for by name."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import ParameterDescriptor

from multipanda_py.cell import Cell
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.hardware import HardwareServices
from multipanda_py.ros.parameters import plain_node
from multipanda_py.ros.services import ControllerManager

NAME = "controller_manager"


def manager_node(main: GuardedNode, cell: Cell, arm: str = "") -> GuardedNode:
    """Return the node with the services and parameters of a controller manager.

    ``update_rate`` is the loop's [Hz]; ``NAME.type`` is the law of an instance, by which clients
    know what could be loaded.

    Args:
        main: The node that stands for the cell; gives the namespace, and is served with it.
        cell: The cell.
        arm: The arm, or an empty string for the whole cell.

    Thread: executor.
    """
    node = plain_node(NAME, main, arm)
    prefix = f"{arm}/{NAME}/" if arm else f"{NAME}/"
    manager = ControllerManager(node, main, cell, arm, prefix)
    HardwareServices(node, main, cell, [arm] if arm else cell.arms, prefix)
    _fixed(node, "update_rate", round(cell.config.cell.rate), "Rate of the control loop [Hz].")
    for info in manager.here():
        _fixed(node, f"{manager.name_here(info)}.type", info.type, "Control law.")
    return node


def _fixed(node: GuardedNode, name: str, value: Any, text: str) -> None:
    node.declare_parameter(
        name,
        value,
        ParameterDescriptor(
            description=text, read_only=True, additional_constraints="set in the cell file"
        ),
    )
