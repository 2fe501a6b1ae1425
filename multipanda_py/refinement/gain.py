# SPDX-License-Identifier: Apache-2.0
"""What laws and estimates gain on a plant by knowing the identified arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.state import Vector
from multipanda_py.validation.record import Run
from multipanda_py.validation.task import Task

SIDES = ("data sheet", "identified")


@dataclass(frozen=True, eq=False)
class Gain:
    """One task on the simulated plant, by laws with the data sheet and with what was identified.

    Attributes:
        number: Of the task.
        law: That it was done with.
        figures: By name with unit: the root mean square with each of :data:`SIDES`.
        series: Of the first repeat with each: times and forces, measured and true, (m,), and what
            was asked for; empty where no force is.
    """

    number: int
    law: str
    figures: Mapping[str, tuple[float, float]]
    series: Mapping[str, Mapping[str, Vector]]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in plain types."""
        figures = {name: dict(zip(SIDES, pair)) for name, pair in self.figures.items()}
        return {"task": self.number, "law": self.law, "rmse": figures}


def gain_of(task: Task, before: Sequence[Run], after: Sequence[Run]) -> Gain:
    """Compare runs of one plant without and with the identified model in its laws."""
    pairs = [_figures(task, runs) for runs in (before, after)]
    series = {side: _series(task, runs[0]) for side, runs in zip(SIDES, (before, after))}
    return Gain(
        task.number,
        task.law,
        {name: (pairs[0][name], pairs[1][name]) for name in pairs[0] if name in pairs[1]},
        series if all(series.values()) else {},
    )


def _figures(task: Task, runs: Sequence[Run]) -> dict[str, float]:
    found: dict[str, float] = {}
    runs = [run for run in runs if run.logs]
    pressing = [run for run in runs if len(run.force)]
    if pressing:
        found["measured less true force [N]"] = _rms(
            [np.linalg.norm(run.force_error, axis=2) for run in pressing]
        )
        found["true less asked force [N]"] = _rms(
            [run.force - _asked(task, run)[:, None] for run in pressing]
        )
    elif runs:
        columns = [log.columns for run in runs for log in run.logs.values()]
        found["false contact torque [Nm]"] = _rms([own["tau_ext"] for own in columns])
        found["false contact force [N]"] = _rms(
            [np.linalg.norm(own["wrench_ext_in_base"][:, :3], axis=1) for own in columns]
        )
    return found


def _rms(values: Sequence[Vector]) -> float:
    return float(np.sqrt(np.mean(np.concatenate([part.ravel() for part in values]) ** 2)))


def _asked(task: Task, run: Run) -> Vector:
    asked = task.asked_force(run.force_time)
    return np.zeros(len(run.force)) if asked is None else asked


def _series(task: Task, run: Run) -> dict[str, Vector]:
    if not len(run.force):
        return {}
    error = run.force_error[:, 0]
    return {
        "time": run.force_time,
        "true": run.force[:, 0],
        "asked": _asked(task, run),
        "error x": error[:, 0],
        "error y": error[:, 1],
        "error z": error[:, 2],
    }
