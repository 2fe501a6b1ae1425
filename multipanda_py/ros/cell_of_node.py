# SPDX-License-Identifier: Apache-2.0
"""The cell that a running node has, as its parameters say."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.node_names import NODE
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.machine.discovery import where_to_look
from multipanda_py.ros.node_link import AGAIN, NodeLink
from multipanda_py.ros.service_call import Call
from multipanda_py.ros.settings import nested


def ask_for_cell(link: NodeLink, root: str, patience: float) -> CellConfig:
    """Return the cell that a node runs; files that it names are to be on this machine, too.

    Args:
        link: To the node, with nothing offered that need not be found.
        root: Namespace of the cell, with a slash in front, or nothing.
        patience: For the node to be found, and for each answer [s].

    Raises:
        TopicLost: If there is no such node, or it does not answer.
        ConfigurationError: If it has no cell, or one that cannot be read here.
    """
    node = f"{root}/{NODE}"
    listing = f"{node}/list_parameters"
    link.offer(ListParameters, listing)
    link.offer(GetParameters, f"{node}/get_parameters")
    link.need(lambda: link.not_found()[:1], patience, "not there", where_to_look())
    ask: Any = ListParameters.Request
    names = link.answer(link.call(listing, ask(), _names_of_cell, patience, AGAIN))
    if not names:
        raise ConfigurationError(f"{node}: runs no cell now; configure and activate it")
    values = link.answer(parameters_of(link, node, names, patience))
    try:
        return CellConfig.from_dict(nested(values), node)
    except ConfigurationError as error:
        raise ConfigurationError(
            *error.faults,
            f"{node}: files that its cell names are to be on this machine, too; a panel may be "
            "given the cell file: multipanda panel FILE --node",
        ) from None


def parameters_of(
    link: NodeLink, node: str, names: list[str], patience: float
) -> Call[dict[str, Any]]:
    """Ask a node for parameters; the answer has them by name."""

    def read(said: Any) -> dict[str, Any]:
        return {name: parameter_value_to_python(one) for name, one in zip(names, said.values)}

    request = GetParameters.Request(names=names)
    return link.call(f"{node}/get_parameters", request, read, patience, AGAIN)


def _names_of_cell(said: Any) -> list[str]:
    return [name for name in said.result.names if name.split(".")[0] in CellConfig.model_fields]
