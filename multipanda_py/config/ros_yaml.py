# SPDX-License-Identifier: Apache-2.0
"""YAML as ROS 2 reads it, so that a cell file means the same with and without ROS.

The parameter parser of ROS 2 (rcl_yaml_param_parser) is not a full YAML parser. It reads
``1e3`` as a number and ``y`` as true, where YAML 1.1 in Python sees text; it takes lists
of one type only; and it refuses, or silently garbles, what a parameter cannot be. The
rules below were found by giving files to ``rclpy.init(args=["--params-file", ...])``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from multipanda_py.files import yaml_text
from multipanda_py.files.regular_file import MAX_TEXT

_KINDS = {bool: "true or false", int: "integer", float: "number with a point", str: "text"}


class RosLoader(yaml_text.PlainLoader):
    """Loader that reads plain words as ROS 2 does, and refuses keys that appear twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - add_implicit_resolver fills this class's own

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys are text, whatever they look like."""
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in mapping:
                what = "keys must be text" if key is None else "a key appears twice"
                raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
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


def read(path: str | Path, max_size: int = MAX_TEXT) -> Any:
    """Return the data of a YAML file.

    Args:
        path: Path of a regular file.
        max_size: Maximum size [bytes].

    Raises:
        ConfigurationError: If it cannot be read, or is not valid.
    """
    return yaml_text.read(path, RosLoader, max_size)


def load(text: str) -> Any:
    """Return the data of a YAML text.

    Raises:
        yaml.YAMLError: If it is not valid, has an alias, or a key twice.
    """
    return yaml_text.load(text, RosLoader)


def ros_faults(data: Any) -> list[str]:
    """Say what of nested parameters ROS 2 would refuse or garble: the path, got, allowed.

    Args:
        data: What stands below ``ros__parameters``, as :func:`load` returns it.
    """
    return list(_faults(data, ""))


def _faults(data: Any, path: str) -> Iterator[str]:
    if isinstance(data, dict):
        if not data and path:
            yield f"{path}: got an empty map, which ROS 2 refuses; leave the key out"
        for key, value in data.items():
            yield from _faults(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        yield from _list_faults(data, path)
    elif data is None:
        yield f"{path}: got no value, which ROS 2 refuses; leave the key out"
    elif type(data) not in _KINDS:
        yield f"{path}: got {data!r:.60}, which is no ROS 2 parameter; put it in quotes"


def _list_faults(items: list[Any], path: str) -> Iterator[str]:
    if not items:
        yield f"{path}: got an empty list, which has no type in ROS 2; leave it out, or write ['']"
    inner = next((item for item in items if type(item) not in _KINDS), None)
    if isinstance(inner, (list, dict)):
        kind = "lists" if isinstance(inner, list) else "maps"
        yield f"{path}: got a list of {kind}, allowed a list of plain values (ROS 2)"
    elif None in items:
        yield f"{path}: got a list with an empty value, which ROS 2 refuses"
    elif inner is not None:
        yield f"{path}: got {inner!r:.60}, which is no ROS 2 parameter; put it in quotes"
    else:
        kinds = list(dict.fromkeys(_KINDS[type(item)] for item in items))
        if set(kinds) == {_KINDS[int], _KINDS[float]}:
            whole = next(item for item in items if type(item) is int)
            yield (
                f"{path}: got integers and numbers with a point in one list, "
                f"which ROS 2 refuses; write {whole} as {whole}.0"
            )
        elif len(kinds) > 1:
            words = [item for item in items if isinstance(item, bool)]
            hint = "; quote words such as 'y' and 'no'" if words else ""
            yield f"{path}: got {' and '.join(kinds)} in one list, allowed one kind (ROS 2){hint}"
