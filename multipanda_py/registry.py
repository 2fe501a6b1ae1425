# SPDX-License-Identifier: Apache-2.0
"""Find controllets, features, backends and actuators by name: the one place that looks upward.

Built-ins follow one rule: ``joint_impedance`` is class ``JointImpedance`` in
module ``joint_impedance`` of the folder. Other distributions add theirs by the
entry-point groups ``multipanda_py.controllets``, ``.features``, ``.backends`` and ``.actuators``;
robots, which are data, by ``multipanda_py.robots`` (:mod:`~multipanda_py.robots.models`).
Contracts name built-in channels by a word, and the default robot by none; they ask here too.
"""

from __future__ import annotations

from functools import cache, reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from multipanda_py.exceptions import ConfigurationError, MissingExtra, UnknownName
from multipanda_py.extras import extras_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multipanda_py.channel import Channel
    from multipanda_py.parameters import Jointed

KINDS = ("controllets", "features", "backends", "actuators")
_BASES = {
    "controllets": ("controllet", "Controllet"),
    "features": ("feature", "Feature"),
    "backends": ("backend", "Backend"),
    "actuators": ("actuator", "Actuator"),
}
_SEVERAL = {
    "controllets": {
        "default_features": "names",
        "touches": "names",
        "Target.channels": "names and Channels",
        "Target.stored": "names and Channels",
        "Target.far": "names",
    },
    "features": {"needs": "names", "channels": "names and Channels"},
    "backends": {"interfaces": "names"},
    "actuators": {"identified": "names"},
}
"""What a class declares several of, and what they are."""


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of a kind, built-ins first."""
    return tuple(dict.fromkeys((*built_in(kind), *plug_ins(kind))))


@cache
def built_in(kind: str) -> tuple[str, ...]:
    """Return the names of what this package brings, in the order of the alphabet."""
    folders = import_module(f"multipanda_py.{kind}").__path__
    return tuple(sorted(found.name for found in iter_modules(folders) if not found.ispkg))


@cache
def find(kind: str, name: str) -> type[Any]:
    """Return the class that a name stands for.

    Args:
        kind: ``controllets``, ``features``, ``backends`` or ``actuators``.
        name: The name, as in the cell file.

    Raises:
        UnknownName: If there is none; lists the names that exist.
        ConfigurationError: If its module cannot be imported or has no such class; names the
            file, or the distribution of a plug-in. Whatever else is known stays usable. Or if
            it declares one text where several names belong.
    """
    what = f"{kind.removesuffix('s')} {name!r}"
    if name in built_in(kind):
        spec = find_spec(f"multipanda_py.{kind}.{name}")
        origin, plug_in = str(spec.origin if spec else name), None
    else:
        plug_in = plug_ins(kind).get(name)
        if plug_in is None:
            raise UnknownName(kind.removesuffix("s"), name, names(kind))
        origin = plug_in.dist.name if plug_in.dist else plug_in.value
    try:
        with extras_named():
            if plug_in is not None:
                loaded = plug_in.load()
            else:
                module = import_module(f"multipanda_py.{kind}.{name}")
                loaded = getattr(module, class_name(name), None)
    except MissingExtra as error:
        raise ConfigurationError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:  # what a module does when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{what} of {origin} cannot be loaded: {reason}") from error
    base = getattr(import_module(f"multipanda_py.{_BASES[kind][0]}"), _BASES[kind][1])
    if not isinstance(loaded, type) or not issubclass(loaded, base):
        got = f"it has no class {class_name(name)}" if loaded is None else f"got {loaded!r}"
        raise ConfigurationError(
            f"{what} of {origin} cannot be loaded: {got}, allowed a class derived from "
            f"multipanda_py.{'.'.join(_BASES[kind])}"
        )
    for path, several in _SEVERAL[kind].items():
        declared = _declared(loaded, path)
        if isinstance(declared, str):  # it would be taken letter by letter
            raise ConfigurationError(
                f"{what} of {origin} cannot be loaded: {path}: got {declared!r}, allowed a tuple "
                f"of {several}: ({declared!r},)"
            )
    return loaded


def _declared(part: object, path: str) -> object:
    return reduce(lambda found, name: getattr(found, name, ()), path.split("."), part)


def built_in_channels() -> Mapping[str, Channel]:
    """Return the channels of this package by name."""
    found: Mapping[str, Channel] = import_module("multipanda_py.channels").CHANNELS
    return found


def default_robot() -> Jointed:
    """Return what an arm is if nobody says."""
    models = import_module("multipanda_py.robots.models")
    found: Jointed = models.MODELS[models.DEFAULT_MODEL]
    return found


def class_name(name: str) -> str:
    """Return the class name that the rule gives: ``joint_impedance`` is ``JointImpedance``."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def plug_ins(kind: str) -> dict[str, EntryPoint]:
    """Return what other distributions bring of a kind, or of robots, by name."""
    return {point.name: point for point in entry_points(group=f"multipanda_py.{kind}")}
