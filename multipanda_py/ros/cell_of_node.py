# SPDX-License-Identifier: Apache-2.0
"""The cell that a running node has, as its parameters say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.node_names import NODE
from multipanda_py.exceptions import ConfigurationError, NodeRefused
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.settings import nested

PATIENCE = 20.0
"""For the node to be found, and to answer [s]."""
AGAIN = 3.0
"""A server may drop its first answer to somebody whom it does not know yet [s]."""
_TURN = 0.01


def offer_cell(link: NodeLink, root: str) -> None:
    """Have a link ready for :func:`ask_for_cell`.

    Args:
        link: To the node.
        root: Namespace of the cell, with a slash in front, or nothing.
    """
    link.offer(ListParameters, f"{root}/{NODE}/list_parameters")
    link.offer(GetParameters, f"{root}/{NODE}/get_parameters")


def ask_for_cell(link: NodeLink, root: str) -> CellConfig:
    """Return the cell that a node runs; files that it names are to be on this machine, too.

    Raises:
        NodeRefused: If there is no such node.
        ConfigurationError: If its cell is none here.
    """
    node = f"{root}/{NODE}"
    wait_until(lambda: not link.not_found(), lambda: _silence(node))
    call = link.call(
        f"{node}/list_parameters", ListParameters.Request(), lambda said: list(said.result.names),
        PATIENCE, AGAIN,
    )  # fmt: skip
    names = answer_of(call.look)
    values = answer_of(parameters_of(link, node, names).look)
    cell = nested(values)
    if not cell:
        raise NodeRefused(f"{node}: has no cell now: its life cycle is to be configured first")
    try:
        return CellConfig.from_dict(cell)
    except ConfigurationError as error:
        faults = "; ".join(error.faults)
        raise ConfigurationError(
            f"{node}: its cell cannot be read here: {faults}. Where files are missing that it "
            "names, give the cell file: multipanda panel FILE --node"
        ) from None


def parameters_of(link: NodeLink, node: str, names: list[str]) -> Any:
    """Ask a node for parameters; the answer has them by name."""

    def read(said: Any) -> dict[str, Any]:
        return {name: parameter_value_to_python(one) for name, one in zip(names, said.values)}

    request = GetParameters.Request(names=names)
    return link.call(f"{node}/get_parameters", request, read, PATIENCE, AGAIN)


def answer_of(look: Callable[[], object | None]) -> Any:
    """Wait for an answer, and return it."""
    found: list[object] = []

    def is_there() -> bool:
        answer = look()
        found.extend([] if answer is None else [answer])
        return bool(found)

    wait_until(is_there, lambda: "no answer")  # whoever is looked at gives up before that
    return found[0]


def wait_until(condition: Callable[[], bool], silence: Callable[[], str]) -> None:
    """Wait for something that comes over the network.

    Raises:
        NodeRefused: If it does not come; says what.
    """
    ends = time.monotonic() + 1.5 * PATIENCE
    while not condition():
        if time.monotonic() > ends:
            raise NodeRefused(silence())
        time.sleep(_TURN)


def _silence(node: str) -> str:
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f"{node} was not found within {1.5 * PATIENCE:g} s: is the namespace that of the cell, "
        f"and ROS_DOMAIN_ID, which is {domain} here? Between machines both need "
        "ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET"
    )
