# SPDX-License-Identifier: Apache-2.0
"""Notes on a cell file: settings that are valid and probably not intended."""

from __future__ import annotations

from pathlib import Path

from multipanda_py.cell.may_touch import may_touch
from multipanda_py.cell.odd_robots import odd_robots
from multipanda_py.cell.same_place import same_place
from multipanda_py.cell.short_stops import short_stops
from multipanda_py.cell.starts_inside import starts_inside
from multipanda_py.cell.too_late import too_late
from multipanda_py.cell.unmet_rates import unmet_rates
from multipanda_py.cell.weak_springs import weak_springs
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import ParameterFile

NOTES = (
    odd_robots, same_place, starts_inside, may_touch, too_late, unmet_rates, weak_springs,
    short_stops,
)  # fmt: skip
"""Checks that return sentences. Every command and the node report all of them."""


def notes_of(config: CellConfig) -> list[str]:
    """Return the notes on a checked cell file; takes some tenths of a second."""
    return [sentence for check in NOTES for sentence in check(config)]


def unread_sections(path: str | Path) -> list[str]:
    """Return a note for every section of a parameter file that no node of the cell reads."""
    return [
        f"parameters of {name} have no effect: no node here has them"
        for name in ParameterFile.read(path).unread()
    ]
