# SPDX-License-Identifier: Apache-2.0
"""What an experiment found: curves, figures, and statements that hold or do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from multipanda_py.state import Vector


class Curve(NamedTuple):
    """One line of a panel.

    Attributes:
        label: For the legend.
        x: (k,).
        y: (k,).
        style: As matplotlib's.
    """

    label: str
    x: Vector
    y: Vector
    style: str = "-"


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    y_label: str
    curves: tuple[Curve, ...]
    x_label: str = "time [s]"


class Check(NamedTuple):
    """A statement, what was found of it, and whether it holds."""

    statement: str
    found: str
    holds: bool


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """Of one experiment.

    Attributes:
        name: By which it is asked for.
        title: For a heading.
        setting: What was done.
        paper: What the paper states about it.
        checks: Statements about what was found here.
        panels: To draw.
        figures: Numbers by name, with the unit at the end of the name.
    """

    name: str
    title: str
    setting: str
    paper: str
    checks: tuple[Check, ...]
    panels: tuple[Panel, ...]
    figures: Mapping[str, float]

    @property
    def holds(self) -> bool:
        """Whether all statements do."""
        return all(check.holds for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return all but the curves, for a file."""
        return {
            "name": self.name, "title": self.title, "setting": self.setting,
            "paper": self.paper,
            "checks": [{**check._asdict(), "holds": bool(check.holds)} for check in self.checks],
            "figures": {name: float(value) for name, value in self.figures.items()},
        }  # fmt: skip
