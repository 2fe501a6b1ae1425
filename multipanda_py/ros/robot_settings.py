# SPDX-License-Identifier: Apache-2.0
"""The settings of every arm's robot as the parameters of a node ``<arm>/franka``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor

from multipanda_py.cell import Cell
from multipanda_py.cell.robot_settings import SETTINGS_TIMEOUT
from multipanda_py.exceptions import LoopTimeout, SettingsRejected
from multipanda_py.franka.live import LIVE, SPECS, START_ONLY
from multipanda_py.franka.options import FrankaConfig
from multipanda_py.ros.deferred_responses import until
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.parameter_requests import Change, LateParameters
from multipanda_py.ros.parameters import descriptor_of, hand_over, plain_node

NAME = "franka"


def robot_nodes(main: GuardedNode, cell: Cell) -> Iterator[GuardedNode]:
    """Yield a node for the robot of every arm, in the arm's namespace.

    Setting a parameter is answered when the robot has answered, some tenths of a second later on
    a real arm and at most :data:`.SETTINGS_TIMEOUT`; everything else is served meanwhile.

    Args:
        main: The node that stands for the cell; gives the namespace.
        cell: The cell.
    """
    for arm in cell.arms:
        yield _robot_node(main, cell, arm)


def _robot_node(main: GuardedNode, cell: Cell, arm: str) -> GuardedNode:
    node = plain_node(NAME, main, arm)
    options = cell.robot_settings(arm)
    for name in LIVE:
        node.declare_parameter(name, getattr(options, name), descriptor_of(SPECS[name]))
    for name in START_ONLY:
        field = FrankaConfig.model_fields[name]
        text = " ".join((field.description or name).split())
        descriptor = ParameterDescriptor(
            description=text, read_only=True, additional_constraints="set in the cell file"
        )
        node.declare_parameter(name, getattr(options, name), descriptor)

    node.late = LateParameters(partial(_change, cell, arm))
    hand_over(node, LIVE, node.late.check)
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
