# SPDX-License-Identifier: Apache-2.0
"""Find controllets, features and backends by name.

Built-ins follow one rule: ``joint_impedance`` is class ``JointImpedance`` in
module ``joint_impedance`` of the folder. Other distributions add theirs by the
entry-point groups ``multipanda_py.controllets``, ``.features`` and ``.backends``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any

from multipanda_py.exceptions import ConfigurationError, UnknownName

KINDS = ("controllets", "features", "backends")


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of a kind, built-ins first."""
    return tuple(dict.fromkeys((*_built_in(kind), *_third_party(kind))))


@cache
def find(kind: str, name: str) -> type[Any]:
    """Return the class that a name stands for.

    Args:
        kind: ``controllets``, ``features`` or ``backends``.
        name: The name, as in the cell file.

    Raises:
        UnknownName: If there is none; lists the names that exist.
        ConfigurationError: If a plug-in's module cannot be imported; names its distribution.
    """
    if name in _built_in(kind):
        module = import_module(f"multipanda_py.{kind}.{name}")
        found: type[Any] = getattr(module, class_name(name))
        return found
    plug_in = _third_party(kind).get(name)
    if plug_in is None:
        raise UnknownName(kind.removesuffix("s"), name, names(kind))
    try:
        loaded: type[Any] = plug_in.load()
    except Exception as error:
        origin = plug_in.dist.name if plug_in.dist else plug_in.value
        raise ConfigurationError(
            f"{kind.removesuffix('s')} {name!r} of {origin} cannot be loaded: {error}"
        ) from error
    return loaded


def class_name(name: str) -> str:
    """Return the class name that the rule gives: ``joint_impedance`` is ``JointImpedance``."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def _built_in(kind: str) -> tuple[str, ...]:
    folder = files(f"multipanda_py.{kind}")
    stems = (
        entry.name.removesuffix(".py") for entry in folder.iterdir() if entry.name.endswith(".py")
    )
    return tuple(sorted(stem for stem in stems if stem != "__init__"))


@cache
def _third_party(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"multipanda_py.{kind}")}
