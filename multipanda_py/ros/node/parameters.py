# SPDX-License-Identifier: Apache-2.0
"""Parameter nodes of controllets and robots, and the parameters of load requests.

As in ros2_control, the spawner and ``ros2 control load_controller`` write file names and node
arguments into parameters of the controller manager before the load request.

A client may name any file that the node can read, and rejections are public on ``/rosout``.
Messages about load requests therefore repeat no text of a file.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from multipanda_py.cell import Cell
from multipanda_py.cell.parameters import SETTINGS_TIMEOUT
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.config.parameter_file import (
    RCLPY_PARAMETERS,
    Parameters,
    load_file,
    matches_node,
    parse_assignment,
    sections,
)
from multipanda_py.exceptions import (
    ConfigurationError,
    LoopTimeout,
    MultipandaError,
    ParameterRejected,
    SettingsRejected,
)
from multipanda_py.files import MAX_REMOTE_SIZE
from multipanda_py.parameters import Spec, declared, live
from multipanda_py.ros.compat.crisp import CrispNames
from multipanda_py.ros.node.deferred_responses import until
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.parameter_requests import (
    MAX_NAME,
    WIDER_TYPES,
    Change,
    ConfirmedParameters,
    set_together,
)

SIM_TIME = "use_sim_time"
PARAMS_FILE, NODE_ARGUMENTS = "params_file", "node_options_args"
"""Names of load parameters: ``<controllet>.<name>`` in the node of a controller manager."""
TYPE = "type"
_ALLOWED = "allowed --params-file FILE and -p NAME:=VALUE; topics cannot be remapped"


def parameter_nodes(main: GuardedNode, cell: Cell) -> dict[str, GuardedNode]:
    """Return one node per controllet, in the namespace of its arm or of the cell."""
    laws = [instance for instance in cell.specs if not instance.is_hold]
    return {law.name: _parameter_node(main, cell, law) for law in laws}


def descriptor_of(spec: Spec) -> ParameterDescriptor:
    """Return the ROS descriptor of a parameter, with its bounds as range or text."""
    descriptor = ParameterDescriptor(
        description=f"{spec.doc or spec.name}{f' [{spec.unit}]' if spec.unit else ''}",
        additional_constraints=spec.allowed,
    )
    low, high = spec.bounds[0]
    if spec.kind == "number" and math.isfinite(low) and math.isfinite(high):
        # The message accepts an int as bound, but converts it to a wrong number.
        bounds = FloatingPointRange(from_value=float(low), to_value=float(high))
        descriptor.floating_point_range = [bounds]
    return descriptor


def plain_node(name: str, main: GuardedNode, arm: str) -> GuardedNode:
    """Return a node that has only parameters, in the namespace of the cell or of an arm."""
    namespace = main.get_namespace()
    node = GuardedNode(
        name,
        guard=main.guard,
        answers=main.answers,
        namespace="/".join((namespace.rstrip("/"), arm)).rstrip("/") or "/",
        use_global_arguments=False,  # The section /** of the cell file is not for this node.
        enable_rosout=False,
        parameter_overrides=[Parameter("start_type_description_service", value=False)],
    )
    node.add_on_set_parameters_callback(partial(_reject_sim_time, node, main.get_name()))
    return node


def _reject_sim_time(node: Node, main: str, parameters: list[Parameter]) -> SetParametersResult:
    # The parameter has no effect in a node without time stamps.
    for parameter in parameters:
        stands = node.get_parameter(SIM_TIME).value if node.has_parameter(SIM_TIME) else None
        if parameter.name == SIM_TIME and parameter.value != stands:
            path = f"{node.get_fully_qualified_name()}: {SIM_TIME}"
            reason = (
                f"{path}: got {parameter.value}, but it has no effect here; set it for {main} "
                "at its start"
            )
            return SetParametersResult(successful=False, reason=reason)
    return SetParametersResult(successful=True)


def _parameter_node(main: GuardedNode, cell: Cell, instance: InstanceSpec) -> GuardedNode:
    arm = instance.config.arms[0] if instance.config.per_arm else ""
    node = plain_node(instance.config.short_name, main, arm)
    values = cell.parameters(instance.name)
    for spec in instance.parameter_specs:
        value = values[spec.name]
        node.declare_parameter(
            spec.name, value.tolist() if spec.kind == "vector" else value, descriptor_of(spec)
        )
    names = {spec.name for spec in instance.parameter_specs}
    if instance.config.type == "cartesian_impedance" and instance.config.per_arm:
        joints = cell.descriptions[arm].joint_names
        node.other_names = CrispNames(names, joints, _log_once(main, instance.name))
    hand_over(node, names, lambda requested: cell.set_parameters(instance.name, requested))
    return node


def hand_over(node: Node, names: Collection[str], apply: Callable[[dict[str, Any]], None]) -> None:
    """Pass each change of parameters to a function that applies or rejects it.

    Args:
        node: Node that has declared the parameters.
        names: Names of the parameters.
        apply: Function that receives values by name, and raises :class:`MultipandaError` to reject
            all.
    """

    def check(parameters: list[Parameter]) -> SetParametersResult:
        requested = {p.name: _plain(p.value) for p in parameters if p.name in names}
        try:
            if requested:
                apply(requested)
        except MultipandaError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def widen(parameters: list[Parameter]) -> list[Parameter]:
        return [_integer_as_double(p) if p.name in names else p for p in parameters]

    node.add_pre_set_parameters_callback(widen)
    node.add_on_set_parameters_callback(check)


def _integer_as_double(parameter: Parameter) -> Parameter:
    kind = WIDER_TYPES.get(parameter.type_)
    if kind is None:
        return parameter
    value = parameter.value
    wide = float(value) if kind is Parameter.Type.DOUBLE else [float(x) for x in value]
    return Parameter(parameter.name, kind, wide)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, array) else value


def _log_once(main: Node, owner: str) -> Callable[[str], None]:
    received = set()

    def log(text: str) -> None:
        if text not in received:
            received.add(text)
            main.get_logger().info(f"{owner}: {text}")

    return log


def robot_nodes(main: GuardedNode, cell: Cell) -> dict[str, GuardedNode]:
    """Return one node per robot that has settings, in the namespace of its arm.

    A change is answered when the robot has answered, no later than :data:`.SETTINGS_TIMEOUT`.
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
    node.confirmed = ConfirmedParameters(partial(_send_settings, cell, arm))
    hand_over(node, {spec.name for spec in live(type(settings))}, node.confirmed.check)
    return node


def _send_settings(cell: Cell, arm: str, requested: dict[str, Any]) -> Change:
    try:
        request = cell.request_robot_settings(arm, **requested)
        yield from until(
            cell,
            lambda: cell.settings_done(request) or None,
            f"the settings of {arm}",
            SETTINGS_TIMEOUT,
            lambda: cell.cancel_settings(request),
        )
    except (SettingsRejected, LoopTimeout) as error:
        return str(error)
    return ""


def requested_parameters(
    files: Sequence[str], arguments: Sequence[str], node: str, known: Sequence[str]
) -> dict[str, Any]:
    """Return the parameters of a controllet's node from files and arguments, by dotted name.

    Unknown names in a section for all nodes (``/**``) are ignored.

    Args:
        files: Paths on this machine; empty ones are ignored.
        arguments: Arguments as after ``--ros-args``.
        node: Full name of the controllet's node.
        known: Names of its parameters.

    Raises:
        ConfigurationError: If a file cannot be read or has no section for the node, or an argument
            is not supported.
    """
    more, overrides = _files_and_assignments(arguments)
    result: dict[str, Any] = {}
    for path in filter(None, (*files, *more)):
        parts = list(sections(load_file(path, MAX_REMOTE_SIZE)))
        meant = [(key, values) for key, values in parts if matches_node(key, node, "")]
        if not meant:
            raise ConfigurationError(
                f"{path}: got sections of {len(parts)} other nodes, allowed {node}: or "
                f"/**/{node.split('/')[-1]}:"
            )
        for key, values in meant:
            _add_section(values, key.strip("/") in ("**", "*"), known, result)
    for key, values in overrides:
        if not key or matches_node(f"/**/{key.lstrip('/')}", node, ""):
            _add_section(values, False, known, result)
    return result


def apply_requested(
    manager: GuardedNode, name: str, law: GuardedNode
) -> Generator[None, None, list[str]]:
    """Set the parameters with which a client loads a controllet; return their names.

    Args:
        manager: Node of the controller manager, whose parameters name files and arguments.
        name: Name of the controllet in that controller manager.
        law: Node of the controllet.

    Raises:
        MultipandaError: If a parameter is rejected; none is set then.
    """
    files, arguments = (manager.get_parameter(leaf).value for leaf in _leaves(name))
    known = law.get_parameters_by_prefix("")
    node = law.get_fully_qualified_name()
    values = requested_parameters(files, arguments, node, [*known])
    if reason := (yield from set_together(law, values)):
        own = _reason_without_file_text(law, values)
        raise ParameterRejected(f"{node}: {own}" if own else reason)
    return list(values)


def _reason_without_file_text(law: GuardedNode, values: Mapping[str, Any]) -> str:
    # If all names are known and no value is a text, the rejection by the node quotes no text of
    # the file either. The result is then empty.
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
    """Clear ``params_file`` and ``node_options_args`` of a controllet in its manager's node."""
    leaves = _leaves(name)
    if all(map(manager.has_parameter, leaves)):
        manager.set_parameters([Parameter(leaf, value=[""]) for leaf in leaves])


def _leaves(name: str) -> list[str]:
    return [f"{name}.{leaf}" for leaf in (PARAMS_FILE, NODE_ARGUMENTS)]


def _add_section(
    values: Mapping[str, Any], for_all: bool, known: Sequence[str], matches: dict[str, Any]
) -> None:
    """Add the parameters of a section to ``matches``; with ``for_all`` only known ones."""
    for name, value in _flat(values):
        is_ours = name != TYPE and name.split(".")[0] not in RCLPY_PARAMETERS
        if is_ours and (name in known or not for_all):
            matches[name] = value


def _files_and_assignments(words: Sequence[str]) -> tuple[list[str], list[tuple[str, Parameters]]]:
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
