# SPDX-License-Identifier: Apache-2.0
"""Parameters with which a client loads a controllet: parameter files and node arguments.

The spawner and ``ros2 control load_controller`` write both into parameters of the controller
manager before the load request, because ros2_control reads them there.

A client may name any file that the node can read, and rejections are published on ``/rosout``.
Therefore messages repeat no text of a file, neither keys nor values.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rclpy.parameter import Parameter

from multipanda_py.config.parameter_file import (
    RCLPY_PARAMETERS,
    Parameters,
    load_file,
    matches_node,
    parse_assignment,
    sections,
)
from multipanda_py.exceptions import ConfigurationError, ParameterRejected
from multipanda_py.files import MAX_REMOTE
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.parameter_requests import MAX_NAME, set_together

PARAMS_FILE, NODE_ARGUMENTS = "params_file", "node_options_args"
"""Parameter names of the controller manager, below the name of a controllet."""
TYPE = "type"
_ALLOWED = "allowed --params-file FILE and -p NAME:=VALUE; topics cannot be remapped"


def requested_parameters(
    files: Sequence[str], arguments: Sequence[str], node: str, known: Sequence[str]
) -> dict[str, Any]:
    """Return the parameters of a controllet's node from files and arguments, by dotted name.

    Parameters of other nodes in a section for all nodes are ignored.

    Args:
        files: Paths on this machine; empty ones are ignored.
        arguments: Arguments as after ``--ros-args``.
        node: Full name of the controllet's node.
        known: Names of its parameters.

    Raises:
        ConfigurationError: If a file cannot be read or has no section for the node, or an argument
            is not supported.
    """
    more, overrides = _arguments(arguments)
    result: dict[str, Any] = {}
    for path in filter(None, (*files, *more)):
        parts = list(sections(load_file(path, MAX_REMOTE)))
        meant = [(key, values) for key, values in parts if matches_node(key, node, "")]
        if not meant:
            raise ConfigurationError(
                f"{path}: got parameters of {len(parts)} other nodes, allowed {node}: or "
                f"/**/{node.split('/')[-1]}:"
            )
        for key, values in meant:
            _take(values, key.strip("/") in ("**", "*"), known, result)
    for key, values in overrides:
        if not key or matches_node(f"/**/{key.lstrip('/')}", node, ""):
            _take(values, False, known, result)
    return result


def apply_requested(
    manager: GuardedNode, name: str, law: GuardedNode
) -> Generator[None, None, list[str]]:
    """Set the parameters with which a client loads a controllet; return their names.

    Args:
        manager: Node of the controller manager, whose parameters name files and arguments.
        name: Name of the controllet there.
        law: Node of the controllet.

    Raises:
        MultipandaError: If a parameter is rejected; none is set then.
    """
    files, arguments = (manager.get_parameter(leaf).value for leaf in _leaves(name))
    known = law.get_parameters_by_prefix("")
    node = law.get_fully_qualified_name()
    values = requested_parameters(files, arguments, node, [*known])
    if reason := (yield from set_together(law, values)):
        own = _own_words(law, values)
        raise ParameterRejected(f"{node}: {own}" if own else reason)
    return list(values)


def _own_words(law: GuardedNode, values: Mapping[str, Any]) -> str:
    """Return a reason for a rejection without text from the values; empty if they have no text."""
    known = law.get_parameters_by_prefix("")
    others = law.other_names
    for name in values:
        if name not in known and (others is None or not others.has(name)):
            near = get_close_matches(name[:MAX_NAME], known, cutoff=0.5)
            meant = f"near: {', '.join(near)}; " if near else ""
            return f"a parameter does not exist; {meant}known: {', '.join(sorted(known))}"
    for name, value in values.items():
        if _has_text(value):
            allowed = law.describe_parameter(name).additional_constraints if name in known else ""
            return f"{name}: this text is not allowed; allowed: {allowed or 'others'}"
    return ""


def _has_text(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(part, (str, list)) for part in parts)


def clear_requested(manager: GuardedNode, name: str) -> None:
    """Clear the load parameters of a controllet, if they exist."""
    leaves = _leaves(name)
    if all(map(manager.has_parameter, leaves)):
        manager.set_parameters([Parameter(leaf, value=[""]) for leaf in leaves])


def _leaves(name: str) -> list[str]:
    return [f"{name}.{leaf}" for leaf in (PARAMS_FILE, NODE_ARGUMENTS)]


def _take(
    values: Mapping[str, Any], for_all: bool, known: Sequence[str], matches: dict[str, Any]
) -> None:
    """Add the parameters of a section to ``matches``, by dotted name.

    The caller has checked that the section is for this node. With ``for_all`` it is for all
    nodes, and unknown names are skipped.
    """
    for name, value in _flat(values):
        is_ours = name != TYPE and name.split(".")[0] not in RCLPY_PARAMETERS
        if is_ours and (name in known or not for_all):
            matches[name] = value


def _arguments(words: Sequence[str]) -> tuple[list[str], list[tuple[str, Parameters]]]:
    """Return the parameter files in arguments, and the values set by ``-p`` with their node."""
    files, overrides = [], []
    rest = iter(word for word in words if word and word not in ("--ros-args", "--"))
    for option in rest:
        word = next(rest, "")
        if option == "--params-file" and word:
            files.append(word)
        elif option in ("-p", "--param") and (result := parse_assignment(word)) is not None:
            overrides.append(result)
        else:
            raise ConfigurationError(f"arguments: got '{option} {word}', {_ALLOWED}")
    return files, overrides


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
