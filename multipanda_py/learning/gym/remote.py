# SPDX-License-Identifier: Apache-2.0
"""Cells and sensors that other rooms and packages bring, which this one does not import."""

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

CELLS = "gym_cells"
"""Kind of remote cells in :mod:`.registry`, by the prefix of their names; other packages add
theirs to the entry points ``multipanda_py.gym_cells``."""

Topics: TypeAlias = Mapping[str, "str | tuple[str, float]"]
"""Topics by the name of what they show, with how old that may be [s] where it is not the usual."""


class RemoteCell(Protocol):
    """A cell that runs elsewhere, for the part of :class:`.Cell` that environments use.

    It has ``descriptions``, ``time``, ``state``, ``pose``, ``objects``, ``gripper``, ``world``,
    ``set_target``, ``switch``, ``hold``, ``recover``, ``move_to``, ``wait``, ``check``,
    ``events_since``, ``start`` and ``close`` of a cell, with the same meaning, and this.
    """

    is_remote: bool

    @property
    def config(self) -> CellConfig:
        """The cell as it runs there."""

    def laws_for(self, arms: Sequence[str], law: str, period: float) -> dict[str, str]:
        """Return by arm the name of the controllet that actions are meant for.

        Raises:
            ConfigurationError: If there is none, or its arm would not hold when actions stop.
        """


class Sensors(Protocol):
    """What is seen beside the cell.

    Attributes:
        pictures: Height and width by name [pixels].
        numbers: How many numbers, by name.
    """

    pictures: Mapping[str, tuple[int, int]]
    numbers: Mapping[str, int]

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, Vector], float]:
        """Return the newest pictures and numbers, and how old the oldest picture is [s].

        Raises:
            TopicLost: If something has not been heard for too long.
        """

    def close(self) -> None:
        """Listen no more; safe to call twice."""


def remote_cell(cell: object) -> Cell | None:
    """Return the cell that runs elsewhere, if that is what is meant, to be used as any other.

    Args:
        cell: Such a cell, ``ros:/NAMESPACE`` for the one of a node, or anything else.

    Raises:
        UnknownName: If nobody makes such cells.
        MultipandaError: If there is none.
    """
    if getattr(cell, "is_remote", False):
        return cast("Cell", cell)  # for the part that RemoteCell names
    kind, colon, name = cell.partition(":") if isinstance(cell, str) else ("", "", "")
    if not colon or "/" in kind or Path(str(cell)).exists():
        return None
    if kind not in registry.names(CELLS):
        raise UnknownName("kind of cell", kind, registry.names(CELLS))
    return cast("Cell", registry.load(CELLS, kind)(name))  # likewise


def refuse_with_remote(**given: object) -> None:
    """Refuse what cannot be chosen for a cell that runs elsewhere.

    Raises:
        ConfigurationError: With every argument that is given.
    """
    if faults := [
        f"{name}: got {value!r:.60}, allowed none for a cell that runs elsewhere"
        for name, value in given.items()
        if value
    ]:
        raise ConfigurationError(*faults)


def sensors_of(topics: Topics) -> Sensors | None:
    """Return what listens to topics of ROS; None without any.

    Raises:
        MissingExtra: If there is no ROS 2.
        TopicLost: If nothing comes on one.
        ConfigurationError: If they are no topics by name.
    """
    given: Any = topics
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"topics: got {topics!r:.60}, allowed topics by name")
    return cast("Sensors", registry.load("gym_sensors", "topics")(topics)) if topics else None


def laws_of(
    cell: Cell, arms: Sequence[str], control: type[Control], period: float, own: str
) -> dict[str, str]:
    """Return the controllet of every arm that actions are meant for.

    Args:
        cell: Of this process, or elsewhere.
        arms: Their names.
        control: What actions mean.
        period: Of a step [s].
        own: Name of the instances of cells of this process.
    """
    if getattr(cell, "is_remote", False):
        return cast("RemoteCell", cell).laws_for(arms, control.law, period)
    return {arm: f"{arm}/{own}" for arm in arms}
