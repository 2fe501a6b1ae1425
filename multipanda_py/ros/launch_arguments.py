# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch files: which there are, and what they may be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.logging import get_logger

from launch import LaunchContext
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError

BOOLEAN = ["true", "false"]
DISCOVERY = ["environment", "SUBNET", "LOCALHOST", "OFF"]
Argument = tuple[str, str, str, Sequence[str] | None]
"""Name, default, what it is, what it may be."""
_NEAR = 0.85
"""How alike names are of which one is meant for the other, of 1."""
_OF_LAUNCH = ("launch-prefix", "launch-prefix-filter")


def refuse_strangers(context: LaunchContext, known: Sequence[str]) -> None:
    """Refuse arguments of the command line that nobody reads, which launch takes silently.

    Those of another launch file that includes this one are that one's.

    Raises:
        ConfigurationError: If there are such.
    """
    own = Path(str(context.get_locals_as_dict().get("current_launch_file_path", ""))).name
    if not any(Path(word).name == own for word in sys.argv):
        return
    for word in context.argv:
        name, is_given, _ = word.partition(":=")
        if is_given and name not in (*known, *_OF_LAUNCH):
            near = get_close_matches(name, known, n=1)
            meant = f"near: {near[0]}; " if near else ""
            raise ConfigurationError(
                f"{word}: there is no such argument; {meant}known: {', '.join(known)}; nothing "
                "is started"
            )


def warn_of_misspelt(context: LaunchContext, known: Sequence[str]) -> None:
    """Warn of values that another launch file gives to names which nearly are arguments.

    Launch hands on whatever it is given and calls nobody's attention to what nobody reads; some of
    it is meant for others.
    """
    for name in context.launch_configurations:
        if name not in known and (near := get_close_matches(name, known, n=1, cutoff=_NEAR)):
            get_logger("multipanda_py").warning(
                f"{name}: there is no such argument; near: {near[0]}, which is "
                f"{context.launch_configurations.get(near[0])!r}"
            )


def addresses(pairs: str, config: CellConfig) -> dict[str, str]:
    """Return the parameters that give arms other addresses: ``arm:ip,arm:ip``.

    Raises:
        ConfigurationError: If a pair is none, or its arm is none of the cell: a parameter of an
            arm that is not there would add one.
    """
    parameters = {}
    for pair in filter(None, pairs.split(",")):
        arm, _, ip = (part.strip() for part in pair.partition(":"))
        if arm not in config.arms or not ip:
            raise ConfigurationError(
                f"robot_ips: got {pair!r}, allowed ARM:ADDRESS,... with arms "
                f"{', '.join(config.arms)}; nothing is started"
            )
        parameters[f"arms.{arm}.robot_ip"] = ip
    return parameters


def cell_file(name: str) -> Path:
    """Return the file of that name, here or else in the package's share."""
    shipped = Path(get_package_share_directory("multipanda_py")) / "config"
    for path in (Path(name), shipped / name):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.name for path in shipped.glob("*.yaml")))
    raise ConfigurationError(f"config_file: got {name!r}, allowed a file or one of {known}")
