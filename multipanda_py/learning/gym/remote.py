# SPDX-License-Identifier: Apache-2.0
"""Interfaces of remote cells and sensors, which other packages provide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from numpy.typing import NDArray

from multipanda_py import registry
from multipanda_py.cell.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.learning.gym.control import Control
from multipanda_py.state import Vector

CELL_KIND = "gym_cells"
"""Registry kind of remote cells, selected by the prefix of their name. Other packages add theirs
to the entry points ``multipanda_py.gym_cells``."""

Topics: TypeAlias = Mapping[str, "str | tuple[str, float]"]
"""Topics by the name of their observation, optionally with a maximum age other than the default
[s]."""


class RemoteCell(Protocol):
    """Cell in another process, with the members of :class:`.Cell` that environments use.

    Environments also use the attributes and queries ``descriptions``, ``time``, ``state``,
    ``pose``, ``objects``, ``gripper`` and ``world``. The commands are ``set_target``, ``switch``,
    ``hold``, ``recover``, ``move_to``, ``wait``, ``check``, ``events_since``, ``start`` and
    ``close``.
    """

    is_remote: bool

    @property
    def config(self) -> CellConfig:
        """Configuration of the remote cell."""

    def controllets_for(
        self, arms: Sequence[str], controllet_type: str, period: float
    ) -> dict[str, str]:
        """Return the controllet to which the environment sends targets, by arm.

        Args:
            arms: Names of the arms.
            controllet_type: Required type of the controllet.
            period: Time between two targets [s].

        Raises:
            ConfigurationError: If an arm has no controllet of this type, or only one that
                continues when targets stop.
        """


class Sensors(Protocol):
    """Sensors of an environment that are not part of the cell, such as ROS topics.

    Attributes:
        images: Height and width of the images by name of the sensor [pixels].
        numbers: Number of components of the vectors by name of the sensor.
    """

    images: Mapping[str, tuple[int, int]]
    numbers: Mapping[str, int]

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, Vector], float]:
        """Return the latest images and vectors by sensor, and the age of the oldest image [s].

        Raises:
            TopicLost: If a topic is stale.
        """

    def close(self) -> None:
        """Stop receiving values. Repeated calls have no effect."""


def remote_cell(cell: object) -> Cell | None:
    """Return the remote cell for the argument ``cell`` of an environment; None for a cell file.

    Args:
        cell: Remote cell, name such as ``ros:/NAMESPACE``, cell file, or None.

    Raises:
        UnknownName: If the prefix of the name is unknown.
        MultipandaError: If the cell is not available.
    """
    if getattr(cell, "is_remote", False):
        # A remote cell has another type than Cell, but all members of it that environments use.
        return cast("Cell", cell)
    kind, colon, name = cell.partition(":") if isinstance(cell, str) else ("", "", "")
    if not colon or "/" in kind or Path(str(cell)).exists():
        return None
    if kind not in registry.names(CELL_KIND):
        raise UnknownName("kind of cell", kind, registry.names(CELL_KIND))
    return cast("Cell", registry.load(CELL_KIND, kind)(name))


def refuse_with_remote(**arguments: object) -> None:
    """Raise an exception if arguments of an environment do not fit a remote cell.

    Args:
        arguments: Arguments that must be None or empty, by name.

    Raises:
        ConfigurationError: If an argument has another value. The message names all such arguments.
    """
    if faults := [
        f"{name}: got {value!r:.60}, not supported for a remote cell"
        for name, value in arguments.items()
        if value
    ]:
        raise ConfigurationError(*faults)


def sensors_of(topics: Topics) -> Sensors | None:
    """Return a subscriber of all ROS topics in a mapping, or None for an empty one.

    Raises:
        MissingExtra: If ROS 2 is not installed.
        TopicLost: If a topic receives no messages.
        ConfigurationError: If the argument is not a mapping.
    """
    value: Any = topics
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"topics: got {topics!r:.60}, allowed a mapping of names to topics"
        )
    return cast("Sensors", registry.load("gym_sensors", "topics")(topics)) if topics else None


def controllets_of(
    cell: Cell, arms: Sequence[str], control: type[Control], period: float, own: str
) -> dict[str, str]:
    """Return the controllet to which an environment sends targets, by arm.

    Args:
        cell: Cell in this process, or a remote cell.
        arms: Names of the arms.
        control: Control that converts actions to targets.
        period: Duration of a step [s].
        own: Name of the controllet after the prefix ``ARM/``, for a cell in this process.
    """
    if getattr(cell, "is_remote", False):
        return cast("RemoteCell", cell).controllets_for(arms, control.controllet, period)
    return {arm: f"{arm}/{own}" for arm in arms}
