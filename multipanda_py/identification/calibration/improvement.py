# SPDX-License-Identifier: Apache-2.0
"""What laws and estimates gain on a plant by knowing the identified arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.arm.excitation import Excitation, Wanted, clearance_in
from multipanda_py.identification.validation.compare import SHORTEST
from multipanda_py.identification.validation.record import Run, run_task
from multipanda_py.identification.validation.task import MotionTask, Task
from multipanda_py.identification.validation.validate import Keep, do_now
from multipanda_py.realtime.recording.arm_log import motion_of
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS


def body_layer(files: Mapping[str, str]) -> dict[str, Any]:
    """Return what a twin's file says beside its own: bodies of simulated arms."""
    return {"arms": {arm: {"perturbation": {"parameters": path}} for arm, path in files.items()}}


def law_layer(files: Mapping[str, str]) -> dict[str, Any]:
    """Return the same of a cell whose laws and estimates are to go by them."""
    return {"arms": {arm: {"identified": path} for arm, path in files.items()}}


def with_bodies(cell: CellConfig, files: Mapping[str, Path]) -> CellConfig:
    """Return a twin whose simulated arms have the bodies of files."""
    arms = dict(cell.arms)
    for name, path in files.items():
        own = arms[name].perturbation.model_copy(update={"parameters": str(path)})
        arms[name] = arms[name].model_copy(update={"perturbation": own})
    return cell.model_copy(update={"arms": arms})


def with_laws(cell: CellConfig, files: Mapping[str, Path]) -> CellConfig:
    """Return a cell whose laws and estimates go by files."""
    arms = dict(cell.arms)
    for name, path in files.items():
        arms[name] = arms[name].model_copy(update={"identified": str(path)})
    return cell.model_copy(update={"arms": arms})


def with_surface(cell: CellConfig, thing: str, surface: Mapping[str, float]) -> CellConfig:
    """Return a cell with another friction and contact of a thing."""
    objects = {**cell.objects, thing: cell.objects[thing].model_copy(update=dict(surface))}
    return cell.model_copy(update={"objects": objects})


MARGIN = 0.05
"""Least distance of the motion to floor, things and other arms [m]."""
ELSEWHERE = 0.2
"""From the end of a motion, where no arm is that sags or rubs, but one that stopped [rad, m]."""


def find_motion(
    cell: CellConfig, arm: str, evaluations: int, seed: int, say: Callable[[str], None]
) -> Matrix:
    """Return points of a motion that shows all parameters, (p, 1 + 3 n).

    Raises:
        IdentificationRefused: If there is none.
    """
    described = describe_arm(arm, cell.arms[arm])
    clearance = clearance_in(cell, arm, MARGIN)
    search = Excitation(described, Wanted(evaluations=evaluations, seed=seed), clearance)
    found = search.search(lambda done, best: say(f"{arm}: motion {done}: condition {best:.1f}"))
    return found.table(found.points(TRAJECTORY_POINTS))


def measure(
    plant: CellConfig,
    arm: str,
    points: Matrix,
    seed: int,
    keep: Keep = do_now,
    *,
    recover: bool = False,
) -> MeasuredMotion:
    """Let an arm of the plant go through a motion, and return what was measured.

    Args:
        plant: Whose arm it is.
        arm: Its name.
        points: Of the motion, (p, 1 + 3 n).
        seed: Of the noise.
        keep: Asked for the run.
        recover: Whether a real arm that has stopped by itself before is recovered for it.

    Raises:
        ValidationRefused: If it does not come to its end.
    """
    run = keep(f"motion_{arm}_{seed}", lambda: _moved(plant, arm, points, seed, recover))
    if run.fault:
        raise ValidationRefused(f"{arm}: {run.fault}")
    (log,) = run.logs.values()
    return motion_of(log, f"{arm}, motion of seed {seed}")


def _moved(plant: CellConfig, arm: str, points: Matrix, seed: int, recover: bool) -> Run:
    """Return a run of a motion, whose fault is also that it did not come to its end."""
    run = run_task(MotionTask(arm, points), plant, seed, recover=recover)
    if run.fault or run.seconds < points[-1, 0]:
        why = run.fault or "no more was recorded"
        return replace(
            run,
            fault=f"the motion ended after {run.seconds:.1f} of {points[-1, 0]:.1f} s: {why}",
        )
    (log,) = run.logs.values()
    away = float(np.abs(log.q[-1] - points[-1, 1 : 1 + len(log.joints)]).max())
    if away > ELSEWHERE:
        return replace(run, fault=f"stopped {away:.2f} rad from the end of its motion")
    return run


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
