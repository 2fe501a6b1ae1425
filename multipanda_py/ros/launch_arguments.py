# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch files, and their checks; independent of the ``launch`` package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from ament_index_python.packages import get_package_share_directory

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError

BOOLEAN_VALUES = ["true", "false"]
DISCOVERY_VALUES = ["environment", "SUBNET", "LOCALHOST", "OFF"]
Argument = tuple[str, str, str, Sequence[str] | None]
"""Launch argument: name, default, description and allowed values, None for any."""
_MIN_SIMILARITY = 0.85
"""Minimum similarity of two names for a suggestion, 0 to 1."""
_OF_LAUNCH = ("launch-prefix", "launch-prefix-filter")


def refuse_strangers(words: Iterable[str], known: Sequence[str]) -> None:
    """Reject unknown arguments of the command line, which launch ignores silently.

    Raises:
        ConfigurationError: If an argument is unknown.
    """
    for word in words:
        name, assignment, _ = word.partition(":=")
        if assignment and name not in (*known, *_OF_LAUNCH):
            near = get_close_matches(name, known, n=1)
            meant = f"near: {near[0]}; " if near else ""
            raise ConfigurationError(
                f"{word}: unknown argument; {meant}known: {', '.join(known)}. No process was "
                "started"
            )


def misspelt(names: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Return the probable correction of each misspelt argument, by the misspelt name.

    Args:
        names: Names of the given arguments.
        known: Names of the arguments that exist.
    """
    strangers = [name for name in names if name not in known]
    near = {
        name: get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY) for name in strangers
    }
    return {name: result[0] for name, result in near.items() if result}


def addresses(pairs: str, config: CellConfig) -> dict[str, str]:
    """Return the parameters that set the addresses of arms, given as ``arm:ip,arm:ip``.

    Raises:
        ConfigurationError: If a pair is malformed or names no arm of the cell.
    """
    parameters = {}
    for pair in filter(None, pairs.split(",")):
        arm, _, ip = (part.strip() for part in pair.partition(":"))
        if arm not in config.arms or not ip:
            raise ConfigurationError(
                f"robot_ips: got {pair!r}, allowed ARM:ADDRESS,... with arms "
                f"{', '.join(config.arms)}. No process was started"
            )
        parameters[f"arms.{arm}.robot_ip"] = ip
    return parameters


def cell_file(name: str) -> Path:
    """Return the path of a cell file, given as a path or as a name in the share folder.

    Raises:
        ConfigurationError: If there is no such file.
    """
    shipped = Path(get_package_share_directory("multipanda_py")) / "config"
    for path in (Path(name), shipped / name):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.name for path in shipped.glob("*.yaml")))
    raise ConfigurationError(f"config_file: got {name!r}, allowed a file or one of {known}")
