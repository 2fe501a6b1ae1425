# SPDX-License-Identifier: Apache-2.0
"""The settings of every arm as the parameters of a node, ``<arm>/franka`` for Franka arms."""

from __future__ import annotations

from functools import partial
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor

from multipanda_py.cell import Cell
from multipanda_py.cell.robot_settings import SETTINGS_TIMEOUT
from multipanda_py.exceptions import LoopTimeout, SettingsRejected
from multipanda_py.ros.deferred_responses import until
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.parameter_requests import Change, LateParameters
from multipanda_py.ros.parameters import descriptor_of, hand_over, plain_node
from multipanda_py.settings import declared, live


def robot_nodes(main: GuardedNode, cell: Cell) -> dict[str, GuardedNode]:
    """Return a node for the robot of every arm that has settings, in the arm's namespace.

    Setting a parameter is answered when the robot has answered, some tenths of a second later on
    a real arm and at most :data:`.SETTINGS_TIMEOUT`; everything else is served meanwhile.

    Args:
        main: The node that stands for the cell; gives the namespace.
        cell: The cell.
    """
    arms = [arm for arm in cell.arms if declared(type(cell.robot_settings(arm)))]
    return {arm: _robot_node(main, cell, arm) for arm in arms}


def _robot_node(main: GuardedNode, cell: Cell, arm: str) -> GuardedNode:
    settings = cell.robot_settings(arm)
    node = plain_node(cell.config.arms[arm].section, main, arm)
    for spec in declared(type(settings)):
        descriptor = descriptor_of(spec)
        if spec.read_only:
            descriptor = ParameterDescriptor(
                description=f"{descriptor.description}.",
                read_only=True,
                additional_constraints="set in the cell file",
            )
        node.declare_parameter(spec.name, getattr(settings, spec.name), descriptor)
    node.late = LateParameters(partial(_change, cell, arm))
    hand_over(node, {spec.name for spec in live(type(settings))}, node.late.check)
    return node


def _change(cell: Cell, arm: str, asked: dict[str, Any]) -> Change:
    """Tell a robot other settings; return why they are refused, or an empty string."""
    try:
        request = cell.ask_robot_settings(arm, **asked)
        yield from until(
            cell,
            lambda: cell.settings_answer(request) or None,
            f"the settings of {arm}",
            SETTINGS_TIMEOUT,
            lambda: cell.withdraw_settings(request),
        )
    except (SettingsRejected, LoopTimeout) as error:
        return str(error)
    return ""
