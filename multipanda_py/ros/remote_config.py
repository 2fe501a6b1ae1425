# SPDX-License-Identifier: Apache-2.0
"""The cell that a running node has, as its parameters say, for a program that acts on it."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.node_names import NODE
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.ros.client_link import ClientLink
from multipanda_py.ros.settings import nested


def read_config(link: ClientLink, root: str, patience: float) -> CellConfig:
    """Return the cell that the node's parameters describe.

    Args:
        link: Asks.
        root: Namespace of the cell, with a slash in front, or nothing.
        patience: For each answer [s].

    Raises:
        TopicLost: If there is no such node, or it does not answer.
        ConfigurationError: If it has no cell.
    """
    node = f"{root}/{NODE}"
    for kind, name in ((ListParameters, "list"), (GetParameters, "get")):
        link.client(kind, f"{node}/{name}_parameters")
    ask: Any = ListParameters.Request
    listed = link.call(f"{node}/list_parameters", ask(), patience)
    groups = {*CellConfig.model_fields}
    names = [name for name in listed.result.names if name.split(".")[0] in groups]
    answer = link.call(f"{node}/get_parameters", GetParameters.Request(names=names), patience)
    values = [parameter_value_to_python(value) for value in answer.values]
    if not names:
        raise ConfigurationError(f"{node}: runs no cell; configure and activate it")
    return CellConfig.from_dict(nested(dict(zip(names, values))), node)
