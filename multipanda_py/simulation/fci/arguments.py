# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``multipanda fci-sim`` and of fault injection commands, without MuJoCo."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, getdoc, signature
from typing import Any

from multipanda_py.exceptions import ConfigurationError, UnknownName

COMMAND_PREFIX = "do_"
"""Prefix of the methods that are commands."""


def command_names(admin: object) -> list[str]:
    """Return the names of an object's commands, which are its methods ``do_<name>``."""
    return [
        item.removeprefix(COMMAND_PREFIX) for item in dir(admin) if item.startswith(COMMAND_PREFIX)
    ]


def find_command(admin: object, name: str) -> Callable[..., Any]:
    """Return the command of an object, which is its method ``do_<name>``.

    Raises:
        UnknownName: If the command does not exist.
    """
    known = command_names(admin)
    if name not in known:
        raise UnknownName("command", name, known)
    command: Callable[..., Any] = getattr(admin, COMMAND_PREFIX + name)
    return command


def check_arguments(command: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Check names and types of the arguments of a command from :func:`find_command`.

    Raises:
        ConfigurationError: If an argument is wrong; the error lists all faults.
    """
    declared = _declared(command)
    faults = [
        f"{_name(command)} takes {', '.join(declared) or 'no arguments'}, got {name}"
        for name in arguments
        if name not in declared
    ]
    for name, item in declared.items():
        if name not in arguments:
            if item.default is Parameter.empty:
                faults.append(f"{_name(command)} needs {name}")
            continue
        faults += _faults(name, arguments[name], item.annotation)
    if faults:
        raise ConfigurationError(*faults)


def check_cycle(cycle: object) -> None:
    """Check the cycle number at which a command is to be executed.

    Raises:
        ConfigurationError: If the cycle number is not an integer, or out of range.
    """
    if faults := _faults("at", cycle, "int"):
        raise ConfigurationError(*faults)


def parse_arguments(command: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """Parse arguments such as ``seconds=2`` or ``wrench=0,0,-10,0,0,0``.

    Raises:
        ConfigurationError: If a text is not an argument of the command.
    """
    declared = _declared(command)
    arguments: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{text!r} is not an argument. Use NAME=VALUE")
        is_list = name in declared and declared[name].annotation.startswith("Sequence")
        arguments[name] = [_value(part) for part in value.split(",")] if is_list else _value(value)
    check_arguments(command, arguments)
    return arguments


def usage_of(command: Callable[..., Any]) -> tuple[str, str]:
    """Return the usage text of a command, and the first line of its docstring."""
    parts = [_name(command)]
    for name, item in _declared(command).items():
        if item.default is Parameter.empty:
            parts.append(f"{name}={_HINTS.get(item.annotation, '...')}")
        elif item.default is None or item.default == ():
            parts.append(f"[{name}={_HINTS.get(item.annotation, '...')}]")
        else:
            value = item.default
            parts.append(f"[{name}={value if isinstance(value, str) else json.dumps(value)}]")
    return " ".join(parts), (getdoc(command) or "").partition("\n")[0]


def _name(command: Callable[..., Any]) -> str:
    return command.__name__.removeprefix(COMMAND_PREFIX)


def _declared(command: Callable[..., Any]) -> dict[str, Parameter]:
    return {name: item for name, item in signature(command).parameters.items() if name != "self"}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _faults(name: str, value: object, kind: str) -> list[str]:
    allowed, fits = _KINDS[kind]
    if not fits(value):
        return [f"{name}: got {_short(value)}, allowed {allowed}"]
    if name in _ARGUMENT_BOUNDS:
        low, high = _ARGUMENT_BOUNDS[name]
        values: list[Any] = value if isinstance(value, list) else [value]
        if any(item is not None and not low <= item <= high for item in values):
            return [f"{name}: got {_short(value)}, allowed {low:g} to {high:g}"]
    return []


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."


def _is_finite_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # ``math.isfinite`` would fail for integers beyond the range of floats.
    return isinstance(value, int) or math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_MAX_VALUE_LENGTH = 60  # Maximum length of a value in a message [characters].
_ARGUMENT_BOUNDS = {
    "at": (0, 1e9),  # Number of a cycle.
    "states": (0, 1e6),
    "commands": (0, 1e6),
    "skip": (0, 1e6),
    "max_count": (0, 1e6),
    "probability": (0, 1),
    "milliseconds": (0, 10_000),
    "seconds": (0, 86_400),
    "robot": (0, 65_535),  # A version has two bytes.
    "gripper": (0, 65_535),
    "tau": (-1e4, 1e4),  # [Nm]
    "wrench": (-1e5, 1e5),  # [N, Nm]
    "q": (-7, 7),  # [rad]
    "width": (0, 1),  # [m]
}
"""Minimum and maximum of numbers, by argument name."""
_HINTS = {"Sequence[float]": "X,X,...", "Sequence[str]": "NAME,...", "int | None": "N"}
# Annotations in this package are not evaluated, so the keys are annotations as text.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", _is_whole),
    "int | None": ("a whole number", lambda value: value is None or _is_whole(value)),
    "float": ("a finite number", _is_finite_number),
    "str": ("a name", lambda value: isinstance(value, str)),
    "Sequence[float]": (
        "finite numbers",
        lambda value: isinstance(value, list) and all(map(_is_finite_number, value)),
    ),
    "Sequence[str]": (
        "names",
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    ),
}


FIRST_ADDRESS = "127.0.0.1"
"""Default address of the first robot; the others get the following addresses."""


def _number_parser(low: float, high: float, kind: type[float] = float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"got {text}, allowed {low:g} to {high:g}")
        return value

    return read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``multipanda fci-sim``, and of the process that it starts."""
    parser.add_argument(
        "addresses", nargs="*", metavar="ADDRESS",
        help=f"addresses of the robots, on this machine; default: {FIRST_ADDRESS}; with --cell "
        "those in the file, or one per arm from the default on",
    )  # fmt: skip
    parser.add_argument(
        "--cell", metavar="FILE",
        help="simulate the arms, tools and objects of a cell file in one scene, one robot per "
        "arm; a file of multipanda perturb makes robots that differ from their data sheet",
    )  # fmt: skip
    parser.add_argument(
        "--tidy", action="store_true",
        help="move objects back to their initial poses whenever a robot begins to move while no "
        "other robot moves",
    )  # fmt: skip
    parser.add_argument(
        "--lockstep", action="store_true",
        help="send each state as soon as the previous one is answered, instead of 1000 a second",
    )  # fmt: skip
    parser.add_argument(
        "--synchronized", action="store_true",
        help="lockstep in which no robot runs ahead of another moving robot",
    )  # fmt: skip
    parser.add_argument(
        "--phase", type=_number_parser(0.0, 1000.0), action="append", default=[], metavar="MS",
        help="delay of a robot's clock; repeat for the second robot, the third ...",
    )  # fmt: skip
    parser.add_argument(
        "--ppm", type=_number_parser(-1e5, 1e5), action="append", default=[], metavar="PPM",
        help="rate error of a robot's clock, positive if too slow; repeat for the other robots",
    )  # fmt: skip
    parser.add_argument(
        "--priority",
        type=_number_parser(0, 99, int),
        default=0,
        metavar="N",
        help="SCHED_FIFO priority up to 99, 0 for none",
    )
