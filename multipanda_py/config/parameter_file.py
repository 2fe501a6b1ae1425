# SPDX-License-Identifier: Apache-2.0
"""ROS 2 parameter files with sections for the nodes of a cell, its controllets and its robots.

The cell, each controllet and each robot can have a section. Values in the section of a controllet
or robot override those in the section of the cell. ``ros2 param dump`` writes these files. Section
names can contain the wildcards of ROS 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py import files as yaml_text
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.backend_section import find_backend, section_of
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_TEXT_SIZE, fault_of
from multipanda_py.parameters import declared

NODE = "multimode_controller"
"""Default name of the cell's node. Sections of a parameter file with this name configure it."""
STOP_SUFFIX = "_stop"
"""Suffix of the name of the node that serves ``stop``."""
SELF_CHECK_SUFFIX = "_self_check"
"""Suffix of the name of the node that checks that the cell's node responds."""
TASK_NODE = "task_runner"
"""Name of the node that runs tasks."""
CAMERA_NODE = "scene_cameras"
"""Name of the node that publishes images of the simulated scene."""
NODES = (NODE, f"{NODE}{STOP_SUFFIX}", f"{NODE}{SELF_CHECK_SUFFIX}", TASK_NODE, CAMERA_NODE,
         "robot_state_publisher", "rviz2")  # fmt: skip
"""All node names in the cell's namespace, including those that the launch files start."""
_NAMESPACE = re.compile(r"/?([A-Za-z_]\w*(/[A-Za-z_]\w*)*/?)?", re.ASCII)

_KINDS = {bool: "true or false", int: "integer", float: "number with a point", str: "text"}


class RosLoader(yaml_text.PlainLoader):
    """YAML loader that reads values as ROS 2 does, and rejects duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - add_implicit_resolver fills this class's own

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping with text keys."""
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in mapping:
                fault = "keys must be text" if key is None else "a key appears twice"
                raise yaml.constructor.ConstructorError(None, None, fault, key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping


def _construct_bool(_: RosLoader, node: yaml.ScalarNode) -> bool:
    return node.value.lower() in ("y", "yes", "true", "on")


def _resolve(kind: str, pattern: str) -> None:
    RosLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), None)


_resolve("null", r"^(?:~|null|Null|NULL|)$")
_resolve("bool", r"^(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE"
                 r"|on|On|ON|off|Off|OFF)$")  # fmt: skip
_resolve("int", r"^[-+]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$")
_resolve("float", r"^[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
                  r"|\.?(?:inf|Inf|INF|nan|NaN|NAN)|infinity)$")  # fmt: skip
RosLoader.add_constructor("tag:yaml.org,2002:bool", _construct_bool)


def read(path: str | Path, max_size: int = MAX_TEXT_SIZE) -> Any:
    """Return the data of a YAML file as ROS 2 reads it.

    Args:
        path: Path of a regular file.
        max_size: Maximum size [bytes].

    Raises:
        ConfigurationError: If the file cannot be read or is not valid.
    """
    return yaml_text.read(path, RosLoader, max_size)


def load(text: str) -> Any:
    """Return the data of a YAML text as ROS 2 reads it.

    Raises:
        yaml.YAMLError: If the text is not valid, contains an alias, or contains a key twice.
    """
    return yaml_text.load(text, RosLoader)


def ros_faults(data: Any) -> list[str]:
    """Return messages about values below ``ros__parameters`` that ROS 2 rejects or misreads."""
    return list(_faults(data, ""))


def _faults(data: Any, path: str) -> Iterator[str]:
    if isinstance(data, dict):
        if not data and path:
            yield f"{path}: got an empty map, which ROS 2 rejects. Remove the key"
        for key, value in data.items():
            yield from _faults(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        yield from _list_faults(data, path)
    elif data is None:
        yield f"{path}: got no value, which ROS 2 rejects. Remove the key"
    elif type(data) not in _KINDS:
        yield f"{path}: got {data!r:.60}, which is not a ROS 2 parameter type. Quote it"


def _list_faults(items: list[Any], path: str) -> Iterator[str]:
    if not items:
        yield f"{path}: got an empty list, which has no type in ROS 2. Remove it, or write ['']"
    inner = next((item for item in items if type(item) not in _KINDS), None)
    if isinstance(inner, (list, dict)):
        kind = "lists" if isinstance(inner, list) else "maps"
        yield f"{path}: got a list of {kind}, allowed a list of plain values (ROS 2)"
    elif None in items:
        yield f"{path}: got a list with an empty value, which ROS 2 rejects. Remove it"
    elif inner is not None:
        yield f"{path}: got {inner!r:.60}, which is not a ROS 2 parameter type. Quote it"
    else:
        kinds = list(dict.fromkeys(_KINDS[type(item)] for item in items))
        if set(kinds) == {_KINDS[int], _KINDS[float]}:
            whole = next(item for item in items if type(item) is int)
            yield (
                f"{path}: got integers and floating-point numbers in one list, which ROS 2 "
                f"rejects; write {whole} as {whole}.0"
            )
        elif len(kinds) > 1:
            words = [item for item in items if isinstance(item, bool)]
            hint = "; quote words such as 'y' and 'no'" if words else ""
            yield f"{path}: got {' and '.join(kinds)} in one list, allowed one kind (ROS 2){hint}"


def may_reach_node(key: str) -> bool:
    """Return True if a section ``key``, a name or pattern, can apply to the node of a cell."""
    return key.rsplit("/", 1)[-1] in ("**", "*", NODE)


def refuse_namespace(name: str) -> None:
    """Raise an error for an invalid ROS namespace.

    Raises:
        ConfigurationError: If ``name`` is not a valid ROS namespace.
    """
    if not _NAMESPACE.fullmatch(name) or "__" in name:
        raise ConfigurationError(
            f"namespace: got {name!r}, allowed names of letters, digits and single _ that do not "
            "begin with a digit, joined by /. No process was started"
        )


PARAMETERS = "ros__parameters"
MAX_TARGET_AGE = "max_target_age"
MAX_TARGET_AGE_BOUND = 3600.0
"""Upper bound of the parameter ``max_target_age`` [s]."""
RCLPY_PARAMETERS = frozenset({"use_sim_time", "start_type_description_service", "qos_overrides"})
"""Parameters that rclpy itself declares."""
PLAIN_JOINT_NAMES, FRANKA_NAMES = "plain_joint_names", "franka_names"
AUTOSTART = "autostart"
NODE_PARAMETERS = RCLPY_PARAMETERS | {MAX_TARGET_AGE, PLAIN_JOINT_NAMES, FRANKA_NAMES, AUTOSTART}
"""Parameters of the cell's node that are not keys of a cell file."""
_ASSIGNMENT = re.compile(r"(?:(?P<node>[\w/*]+):)?(?P<name>[\w.]+):=(?P<value>.*)", re.DOTALL)
Parameters = dict[str, Any]


@dataclass
class ParameterFile:
    """Contents of a parameter file.

    Attributes:
        cell: Configuration of the cell, from the sections for the node of the cell.
        others: Sections of other nodes, as pairs of a node name or pattern and parameters.
        faults: Messages about values that ROS 2 or the cell's node would reject or misread.
    """

    cell: Parameters = field(default_factory=dict)
    others: list[tuple[str, Parameters]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: str | Path) -> ParameterFile:
        """Read a ROS 2 parameter file.

        Raises:
            ConfigurationError: If the file cannot be read, or has no section for a cell's node.
        """
        data, result = load_file(path), cls()
        for key, values in sections(data):
            if may_reach_node(key):
                result.faults += [*ros_faults(values), *node_faults(values)]
                own = {k: v for k, v in values.items() if k not in NODE_PARAMETERS}
                result.cell = merged(result.cell, own)
            else:
                result.faults += [f"{key}: {fault}" for fault in ros_faults(values)]
                result.others.append((key, values))
        if any(may_reach_node(key) for key, _ in sections(data)):
            return result
        if result.others:
            named = ", ".join(f"{name!r:.60}" for name, _ in result.others)
            raise ConfigurationError(
                f"{path}: got parameters of {named}, but none of the node of a cell. Use '/**:' "
                f"or '{NODE}:'"
            )
        raise ConfigurationError(
            f"{path}: not a ROS 2 parameter file: expected '/**:' with '{PARAMETERS}:' below it"
        )

    def unmatched_sections(self) -> list[str]:
        """Return the names of sections for nodes that the cell does not have."""
        return with_sections(self.cell, self.others)[1]


def sections(data: object, above: str = "") -> Iterator[tuple[str, Parameters]]:
    """Yield node name and parameters of every section of a parameter file, in order.

    Args:
        data: Contents of the file, or of one of its keys.
        above: Namespace of ``data``, which ends with ``/`` or is empty.
    """
    for key, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, dict) and isinstance(value.get(PARAMETERS), dict):
            yield f"{above}{key}", value[PARAMETERS]
        elif isinstance(value, dict):
            yield from sections(value, f"{above}{key}/")


def load_file(path: str | Path, max_size: int = MAX_TEXT_SIZE) -> Any:
    """Return the data of a parameter file as ROS 2 reads it.

    Unlike :func:`read`, this function rejects files with a top-level key that is not a node.

    Args:
        path: Path of the file.
        max_size: Maximum size [bytes].

    Raises:
        ConfigurationError: If it cannot be read, or is no parameter file.
    """
    data = read(path, max_size)
    nodes = (
        [_is_node_or_namespace(section) for section in data.values()]
        if isinstance(data, dict)
        else []
    )
    if any(nodes) and not all(nodes):
        raise ConfigurationError(
            f"{path}: top-level key {nodes.index(False) + 1} has no '{PARAMETERS}:' below it, so "
            "ROS 2 rejects the file. Remove every top-level key that is not a node"
        )
    return data


def _is_node_or_namespace(section: object) -> bool:
    return isinstance(section, dict) and all(
        isinstance(value, dict) if key == PARAMETERS else _is_node_or_namespace(value)
        for key, value in section.items()
    )


def node_faults(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield error messages on parameters that only a ROS node has, such as ``use_sim_time``."""
    age = values.get(MAX_TARGET_AGE, 1.0)
    if (
        isinstance(age, bool)
        or not isinstance(age, (int, float))
        or not 0 <= age <= MAX_TARGET_AGE_BOUND
    ):
        yield (
            f"{MAX_TARGET_AGE}: got {age!r:.60}, allowed a number in [0, {MAX_TARGET_AGE_BOUND:g}]"
        )
    for name in ("use_sim_time", PLAIN_JOINT_NAMES, FRANKA_NAMES, AUTOSTART):
        if not isinstance(value := values.get(name, False), bool):
            yield f"{name}: got {value!r:.60}, allowed true or false"


def parse_assignment(word: str) -> tuple[str, Parameters] | None:
    """Parse ``NODE:NAME:=VALUE`` into node and parameters; ``NAME:=VALUE`` has an empty node.

    Returns:
        Node name and nested parameters; None for a text of another form.

    Raises:
        ConfigurationError: If the value is not valid YAML.
    """
    if (match := _ASSIGNMENT.fullmatch(word)) is None:
        return None
    try:
        value = load(match["value"])
    except yaml.YAMLError as error:
        raise ConfigurationError(f"-p {word}: not valid YAML: {fault_of(error)}") from None
    *groups, leaf = match["name"].split(".")
    values: Parameters = {leaf: value}
    for group in reversed(groups):
        values = {group: values}
    return match["node"] or "", values


def with_sections(
    cell: Parameters, others: Iterable[tuple[str, Parameters]], namespace: str | None = None
) -> tuple[Parameters, list[str]]:
    """Merge sections of controllets and robots into the data of a cell and override its values.

    Args:
        cell: Data of the cell, valid or not.
        others: Sections of other nodes, as pairs of a node name or pattern and parameters.
        namespace: ROS namespace of the cell; None accepts sections of nodes in any namespace.

    Returns:
        Merged data, and the names of sections for nodes that the cell does not have.
    """
    sections, unmatched = _sections_by_node(cell), []
    for key, values in others:
        names = [name for name in sections if matches_node(key, name, namespace)]
        for name in names:
            keys, usual = sections[name]
            layer = {
                key: value
                for key, value in values.items()
                if key not in RCLPY_PARAMETERS and not (key in usual and value == usual[key])
            }
            for step in reversed(keys):
                layer = {step: layer}
            cell = merged(cell, layer)
        if not names and key.rsplit("/", 1)[-1] not in NODES:
            unmatched.append(key)
    return cell, unmatched


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> Parameters:
    """Merge nested mappings; values of ``over`` replace those with the same keys."""
    result = dict(values)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merged(below, value)
        result[key] = value
    return result


def _sections_by_node(cell: Mapping[str, Any]) -> dict[str, tuple[tuple[str, ...], Parameters]]:
    # By node name: key path of the section that the node's parameters override, and its default
    # values. Defaults that ``ros2 param dump`` writes must not count as set by the user: a
    # simulated arm stops at its force thresholds only if a file sets them.
    result: dict[str, tuple[tuple[str, ...], Parameters]] = {}
    arms, controllets = (cell.get(key) for key in ("arms", "controllets"))
    arms = arms if isinstance(arms, Mapping) else {}
    for name, section in controllets.items() if isinstance(controllets, Mapping) else ():
        if isinstance(section, Mapping) and "arms" in section:
            result[name] = ("controllets", name, "params"), {}
        else:
            for arm in arms:
                result[f"{arm}/{name}"] = ("controllets", name, "arm_params", arm), {}
    for arm, arm_section in arms.items():
        backend = ArmConfig.model_fields["backend"].default
        if isinstance(arm_section, Mapping):
            backend = arm_section.get("backend", backend)
        try:
            section, settings = section_of(str(backend)), find_backend(str(backend)).Settings
        except ConfigurationError:  # The check of the cell reports a wrong backend.
            continue
        usual = {spec.name: np.asarray(spec.default).tolist() for spec in declared(settings)}
        result[f"{arm}/{section}"] = ("arms", arm, section), usual
    return result


def matches_node(key: str, name: str, namespace: str | None) -> bool:
    """Return True if the name of a section is the name of a node, or a pattern that matches it.

    Args:
        key: Name of the section.
        name: Name of the node, without the namespace of the cell.
        namespace: ROS namespace of the cell; None accepts any namespace.
    """
    tokens = key.strip("/").split("/")
    pattern = "".join(
        r"(?:/[^/]+)*" if token == "**" else r"/[^/]+" if token == "*" else f"/{re.escape(token)}"
        for token in tokens
    )
    if namespace is None:
        return re.search(rf"(?:^|/){re.escape(name)}$", key) is not None or _fits(pattern, name)
    return _fits(pattern, f"{namespace.strip('/')}/{name}")


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, f"/{name.strip('/')}") is not None
