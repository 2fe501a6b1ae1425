# SPDX-License-Identifier: Apache-2.0
"""What laws and estimates gain on a plant by knowing the identified arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multipanda_py.state import Vector
from multipanda_py.validation.compare import SHORTEST
from multipanda_py.validation.record import Run
from multipanda_py.validation.task import Task

SIDES = ("data sheet", "identified")


@dataclass(frozen=True, eq=False)
class Gain:
    """One task on the simulated plant, by laws with the data sheet and with what was identified.

    Attributes:
        number: Of the task.
        law: That it was done with.
        figures: By name with unit: the root mean square with each of :data:`SIDES`, over as much
            of the task as both came through.
        series: Of the first repeat with each: times and forces, measured and true, (m,), and what
            was asked for; empty where no force is.
        runs: With each.
        early: How many of them a fault ended, with each.
    """

    number: int
    law: str
    figures: Mapping[str, tuple[float, float]]
    series: Mapping[str, Mapping[str, Vector]]
    runs: int
    early: tuple[int, int]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in plain types."""
        figures = {name: dict(zip(SIDES, pair)) for name, pair in self.figures.items()}
        return {
            "task": self.number, "law": self.law, "rmse": figures,
            "runs": self.runs, "ended_early": dict(zip(SIDES, self.early)),
        }  # fmt: skip


def gain_of(task: Task, before: Sequence[Run], after: Sequence[Run]) -> Gain:
    """Compare runs of one plant without and with the identified model in its laws."""
    early = tuple(sum(bool(run.fault) for run in runs) for runs in (before, after))
    ends = [min(run.seconds for run in pair) for pair in zip(before, after)]
    cut = [
        [_until(run, end) for run, end in zip(runs, ends) if end >= SHORTEST]
        for runs in (before, after)
    ]
    pairs = [_figures(task, runs) for runs in cut]
    series = {side: _series(task, runs[0]) for side, runs in zip(SIDES, cut) if runs}
    return Gain(
        task.number,
        task.law,
        {name: (pairs[0][name], pairs[1][name]) for name in pairs[0] if name in pairs[1]},
        series if series and all(series.values()) else {},
        len(before),
        (early[0], early[1]),
    )


def _until(run: Run, seconds: float) -> Run:
    """Return the begin of a run."""
    there = run.force_time <= seconds
    return replace(
        run,
        logs={name: log.between(-np.inf, seconds + 1e-9) for name, log in run.logs.items()},
        force=run.force[there],
        force_error=run.force_error[there],
        force_time=run.force_time[there],
    )


def _figures(task: Task, runs: Sequence[Run]) -> dict[str, float]:
    found: dict[str, float] = {}
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
