# SPDX-License-Identifier: Apache-2.0
"""Conversion of ROS parameters to a cell configuration, also from those of a running node."""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.model_section import relative_to
from multipanda_py.config.parameter_file import (
    AUTOSTART,
    FRANKA_NAMES,
    MAX_TARGET_AGE,
    MAX_TARGET_AGE_BOUND,
    NODE,
    NODE_PARAMETERS,
    PLAIN_JOINT_NAMES,
    Parameters,
    load,
    may_reach_node,
    parse_assignment,
    sections,
    with_sections,
)
from multipanda_py.exceptions import ConfigurationError, FileRejected
from multipanda_py.files import MAX_TEXT_SIZE, check_regular, fault_of, read_text
from multipanda_py.realtime.system.dds import discovery_hint
from multipanda_py.ros.client.node_link import REPEAT_PERIOD, Call, NodeLink

_OURS = frozenset(CellConfig.model_fields)
BOOLEAN_PARAMETERS = {
    PLAIN_JOINT_NAMES: (
        False,
        "publish fr3_joint1 instead of left_fr3_joint1 in <arm>/joint_states, for clients of a "
        "single arm; the merged joint_states keeps the prefix",
    ),
    FRANKA_NAMES: (
        False,
        "also offer services, actions and topics by their names in franka_ros2; requires "
        "franka_msgs for its types",
    ),
    AUTOSTART: (
        True,
        "configure and activate at the start; if false, wait unconfigured for change_state",
    ),
}
"""Boolean parameters of the node: default and description."""


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted parameters to the nested form of the cell file.

    Parameters that do not belong to a cell are dropped. The order is kept, because it numbers the
    arms.

    Args:
        overrides: Values by dotted name. None stands for an empty list, which rcl cannot
            represent.

    Raises:
        ConfigurationError: If a name has both a value and sub-names.
    """
    tree: dict[str, Any] = {}
    faults = []
    for name, value in overrides.items():
        *groups, leaf = name.split(".")
        branch: Any = tree
        for group in groups:
            branch = branch.setdefault(group, {}) if isinstance(branch, dict) else None
        if not isinstance(branch, dict) or isinstance(branch.get(leaf), dict):
            faults.append(f"{name}: got a value and sub-keys for one name. Remove one of them.")
        else:
            branch[leaf] = _plain(value)
    if faults:
        raise ConfigurationError(*faults)
    return {name: value for name, value in tree.items() if name in _OURS}


def sections_of_others(args: Sequence[str]) -> list[tuple[str, Parameters]]:
    """Return the sections of parameter files, and assignments by ``-p``, for other nodes.

    A file with duplicate keys is rejected.

    Args:
        args: Command line.

    Returns:
        Name and values of each section.

    Raises:
        ConfigurationError: If a file is not valid.
    """
    faults: list[str] = []
    result: list[tuple[str, Parameters]] = []
    for option, path in itertools.pairwise(args):
        if option == "--params-file":
            try:
                result.extend(sections(load(read_text(path))))
            except OSError:
                continue  # ROS 2 has read the file already, so it may be deleted by now.
            except yaml.YAMLError as error:
                faults.append(f"{path}: not valid YAML: {fault_of(error)}")
    if faults:
        raise ConfigurationError(*faults)
    result.extend(_assignments_to_others(args, faults))
    if faults:
        raise ConfigurationError(*faults)
    return [(key, values) for key, values in result if not may_reach_node(key)]


def _assignments_to_others(
    args: Sequence[str], faults: list[str]
) -> Iterator[tuple[str, Parameters]]:
    # As in ROS 2, an assignment applies to every node of that name in any namespace.
    renamed = {
        word.partition(":=")[2]
        for option, word in itertools.pairwise(args)
        if option in ("-r", "--remap") and re.match(r"(\w+:)?__(node|name):=", word)
    }
    for option, word in itertools.pairwise(args):
        try:
            result = parse_assignment(word) if option in ("-p", "--param") else None
        except ConfigurationError as error:
            faults.extend(error.faults)
            continue
        node, values = result or ("", {})
        if node and node not in renamed:
            yield node if may_reach_node(node) else f"/**/{node.lstrip('/')}", values


def unreadable_files(args: Sequence[str]) -> list[str]:
    """Return reasons why existing parameter files cannot be read."""
    # ROS 2 itself reports missing files, but would block on a FIFO.
    faults = []
    for option, path in itertools.pairwise(args):
        if option == "--params-file":
            try:
                check_regular(path, MAX_TEXT_SIZE)
            except FileRejected as error:
                faults.append(f"{path}: cannot be read: {error.strerror}")
            except OSError:
                continue
    return faults


def folders_of(args: Sequence[str]) -> list[Path]:
    """Return the folders of the parameter files, in the order of the arguments."""
    pairs = itertools.pairwise(args)
    return [Path(path).absolute().parent for option, path in pairs if option == "--params-file"]


def cell_config(
    node: Node,
    folders: Sequence[Path] = (),
    others: Sequence[tuple[str, Parameters]] = (),
) -> CellConfig:
    """Return the cell configuration from the parameters of the main node and of other nodes.

    The parameters become read-only parameters of the main node.

    Args:
        node: Node that declares the parameters.
        folders: Folders of the parameter files, for relative paths in them.
        others: Sections of those files for other nodes.

    Raises:
        ConfigurationError: If the cell is invalid. The error lists all faults.
    """
    # Do not let rclpy declare the overrides, because it fails at an empty list (`features: []`).
    overrides = {name: item.value for name, item in node._parameter_overrides.items()}
    data = relative_to([*folders, Path()], nested(overrides))
    if not data:
        raise ConfigurationError(
            "no cell given: run multimode_controller --ros-args --params-file <cell file>"
        )
    for name, value in overrides.items():
        group = name.split(".")[0]
        if group in _OURS:
            _declare_read_only(node, name, value, data)
        elif group not in NODE_PARAMETERS:
            node.get_logger().warning(
                f"parameter {name} has no effect, because it does not belong to a cell"
            )
    data, strangers = with_sections(data, others, node.get_namespace())
    for name in strangers:
        node.get_logger().warning(
            f"parameters of {name} have no effect: the cell has no such node"
        )
    config = CellConfig.from_dict(data)
    if config.cell.placement == "inline":
        raise ConfigurationError(
            "cell: cell.placement: inline needs a program that steps it. Set process or thread."
        )
    return config


def _declare_read_only(node: Node, name: str, value: Any, data: Any) -> None:
    # Strings are those of ``data``, in which paths are absolute.
    for key in name.split(".") if isinstance(value, str) else ():
        data = data[key]
    # rclpy writes name and type into the descriptor, so each parameter needs its own descriptor.
    descriptor = ParameterDescriptor(
        description=f"{name} of the cell file", read_only=True, dynamic_typing=True
    )
    node.declare_parameter(name, data if isinstance(value, str) else value, descriptor)


def max_target_age(node: Node) -> float:
    """Declare and return the maximum age of a target's stamp [s]; 0 for no limit.

    Raises:
        ConfigurationError: If the parameter is not an allowed number.
    """
    allowed = FloatingPointRange(from_value=0.0, to_value=MAX_TARGET_AGE_BOUND)
    descriptor = ParameterDescriptor(
        description="reject targets whose stamp is older than this [s]; 0 for no limit",
        floating_point_range=[allowed],
        read_only=True,
    )
    try:
        return float(node.declare_parameter(MAX_TARGET_AGE, 1.0, descriptor).value)
    except ParameterException as error:
        raise ConfigurationError(
            f"{MAX_TARGET_AGE}: {error}; allowed 0.0 to {MAX_TARGET_AGE_BOUND}"
        ) from None


def flag(node: Node, name: str) -> bool:
    """Declare one of :data:`BOOLEAN_PARAMETERS` and return its value.

    Raises:
        ConfigurationError: If the parameter is not a boolean.
    """
    default, text = BOOLEAN_PARAMETERS[name]
    descriptor = ParameterDescriptor(description=text, read_only=True)
    try:
        return bool(node.declare_parameter(name, default, descriptor).value)
    except ParameterException as error:
        raise ConfigurationError(f"{name}: {error}; allowed true, false") from None


def _plain(value: Any) -> Any:
    if value is None:
        return []
    return list(value) if isinstance(value, array) else value


def ask_for_cell(link: NodeLink, root: str, timeout: float) -> CellConfig:
    """Return the configuration of the cell that a node runs.

    Files that the configuration names must exist on this machine, too.

    Args:
        link: Link to the node, on which :meth:`.NodeLink.offer` was not called yet.
        root: Namespace of the cell with a leading slash, or empty.
        timeout: Timeout for discovery and for each answer [s].

    Raises:
        TopicLost: If there is no such node, or it does not answer.
        ConfigurationError: If the node has no cell, or its cell is invalid on this machine.
    """
    node = f"{root}/{NODE}"
    listing = f"{node}/list_parameters"
    link.offer(ListParameters, listing)
    link.offer(GetParameters, f"{node}/get_parameters")
    link.need(lambda: link.not_found()[:1], timeout, "not there", discovery_hint())
    ask: Any = ListParameters.Request
    names = link.answer(link.call(listing, ask(), _names_of_cell, timeout, REPEAT_PERIOD))
    if not names:
        raise ConfigurationError(f"{node}: runs no cell. Configure and activate it.")
    values = link.answer(parameters_of(link, node, names, timeout))
    try:
        return CellConfig.from_dict(nested(values), node)
    except ConfigurationError as error:
        raise ConfigurationError(
            *error.faults,
            f"{node}: files that its cell names must be on this machine, too. For a panel you can "
            "pass the cell file: multipanda panel FILE --node",
        ) from None


def parameters_of(
    link: NodeLink, node: str, names: list[str], timeout: float
) -> Call[dict[str, Any]]:
    """Request parameters of a node, with a timeout [s]. The answer has the values by name."""

    def read(response: Any) -> dict[str, Any]:
        return {name: parameter_value_to_python(one) for name, one in zip(names, response.values)}

    request = GetParameters.Request(names=names)
    return link.call(f"{node}/get_parameters", request, read, timeout, REPEAT_PERIOD)


def _names_of_cell(response: Any) -> list[str]:
    return [
        name for name in response.result.names if name.split(".")[0] in CellConfig.model_fields
    ]
