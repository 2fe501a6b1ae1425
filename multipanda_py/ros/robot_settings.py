# SPDX-License-Identifier: Apache-2.0
"""The settings of every arm's robot as the parameters of a node ``<arm>/franka``."""

from __future__ import annotations

from collections.abc import Iterator

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.franka.live import LIVE, SPECS, START_ONLY
from multipanda_py.franka.options import FrankaConfig
from multipanda_py.ros.parameters import describe, hand_over, plain_node

NAME = "franka"


def robot_nodes(main: Node, cell: Cell) -> Iterator[Node]:
    """Yield a node for the robot of every arm, in the arm's namespace.

    Setting a parameter waits for the robot's answer, some tenths of a second on a real arm and
    at most :data:`~multipanda_py.cell_robots.SETTINGS_TIMEOUT`. No other callback is served
    meanwhile; the loop, and the heartbeat that it listens to, go on.

    Args:
        main: The node that stands for the cell; gives the namespace.
        cell: The cell.
    """
    for arm in cell.arms:
        yield _robot_node(main.get_namespace(), cell, arm)


def _robot_node(namespace: str, cell: Cell, arm: str) -> Node:
    node = plain_node(NAME, namespace, arm)
    options = cell.robot_settings(arm)
    for name in LIVE:
        node.declare_parameter(name, getattr(options, name), describe(SPECS[name]))
    for name in START_ONLY:
        field = FrankaConfig.model_fields[name]
        text = " ".join((field.description or name).split())
        descriptor = ParameterDescriptor(
            description=text, read_only=True, additional_constraints="set in the cell file"
        )
        node.declare_parameter(name, getattr(options, name), descriptor)

    hand_over(node, LIVE, lambda asked: cell.set_robot_settings(arm, **asked))
    return node
