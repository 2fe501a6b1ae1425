# SPDX-License-Identifier: Apache-2.0
"""The node ``controller_manager`` of a cell or of one arm, which clients look for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor

from multipanda_py.cell import Cell
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.hardware import HardwareServices
from multipanda_py.ros.load_parameters import NODE_ARGUMENTS, PARAMS_FILE, TYPE
from multipanda_py.ros.parameters import plain_node
from multipanda_py.ros.services import ControllerManager
from multipanda_py.ros.standing_controllers import reported_type

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
