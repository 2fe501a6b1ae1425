# SPDX-License-Identifier: Apache-2.0
"""Comparison of controllets on a plant with the data-sheet model and with the identified model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.arm.excitation import (
    Excitation,
    ExcitationOptions,
    clearance_in,
)
from multipanda_py.identification.validation.compare import MIN_COMMON_DURATION
from multipanda_py.identification.validation.record import Run, run_task
from multipanda_py.identification.validation.task import MAX_END_DISTANCE, MotionTask, Task
from multipanda_py.identification.validation.validate import Keep, do_now
from multipanda_py.realtime.recording.arm_log import motion_of
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS


def body_layer(parameter_files: Mapping[str, str]) -> dict[str, Any]:
    """Return cell file entries that give simulated arms identified parameters from files."""
    return {
        "arms": {
            arm: {"perturbation": {"parameters": path}} for arm, path in parameter_files.items()
        }
    }


def law_layer(parameter_files: Mapping[str, str]) -> dict[str, Any]:
    """Return cell file entries that give controllets identified arm parameters from files.

    The estimate of external torques also uses them.
    """
    return {"arms": {arm: {"identified": path} for arm, path in parameter_files.items()}}


def with_bodies(cell: CellConfig, parameter_files: Mapping[str, Path]) -> CellConfig:
    """Return a twin whose simulated arms have identified parameters, one file per arm."""
    arms = dict(cell.arms)
    for name, path in parameter_files.items():
        own = arms[name].perturbation.model_copy(update={"parameters": str(path)})
        arms[name] = arms[name].model_copy(update={"perturbation": own})
    return cell.model_copy(update={"arms": arms})


def with_laws(cell: CellConfig, parameter_files: Mapping[str, Path]) -> CellConfig:
    """Return a cell that uses identified arm parameters for control, one file per arm.

    Controllets and the estimate of external torques use them.
    """
    arms = dict(cell.arms)
    for name, path in parameter_files.items():
        arms[name] = arms[name].model_copy(update={"identified": str(path)})
    return cell.model_copy(update={"arms": arms})


def with_surface(cell: CellConfig, object_name: str, surface: Mapping[str, float]) -> CellConfig:
    """Return a cell with other contact parameters of an object.

    Args:
        cell: Description of the cell.
        object_name: Name of the object.
        surface: Values by key of the cell file, such as ``friction``.
    """
    objects = {
        **cell.objects,
        object_name: cell.objects[object_name].model_copy(update=dict(surface)),
    }
    return cell.model_copy(update={"objects": objects})


MIN_DISTANCE = 0.05
"""Minimum distance of the motion to floor, objects and other arms [m]."""


def find_motion(
    cell: CellConfig, arm: str, evaluations: int, seed: int, log: Callable[[str], None]
) -> Matrix:
    """Search for an excitation motion of an arm and return its points, (p, 1 + 3 n).

    Their columns are times, positions, velocities and accelerations.

    Args:
        cell: Cell of the arm and its surroundings.
        arm: Name of the arm.
        evaluations: Number of motions to evaluate.
        seed: Random seed of the search.
        log: Callback that receives progress messages.

    Raises:
        IdentificationRejected: If no motion satisfies the limits.
    """
    described = describe_arm(arm, cell.arms[arm])
    clearance = clearance_in(cell, arm, MIN_DISTANCE)
    search = Excitation(
        described, ExcitationOptions(evaluations=evaluations, seed=seed), clearance
    )
    match = search.search(lambda done, best: log(f"{arm}: motion {done}: condition {best:.1f}"))
    return match.table(match.points(TRAJECTORY_POINTS))


def measure(
    plant: CellConfig,
    arm: str,
    points: Matrix,
    seed: int,
    keep: Keep = do_now,
    *,
    recover: bool = False,
) -> MeasuredMotion:
    """Run a motion on an arm of the plant and return the measured log.

    Args:
        plant: Cell of the arm.
        arm: Name of the arm.
        points: Points of the motion, (p, 1 + 3 n): times, positions, velocities, accelerations.
        seed: Random seed of the simulated noise.
        keep: Function that gets the name of a run and a function that executes it. It returns the
            stored run of this name, or executes and stores it. By default, nothing is stored.
        recover: True to first recover a real arm that has stopped on a fault.

    Raises:
        ValidationRejected: If the arm does not complete the motion.
    """
    run = keep(f"motion_{arm}_{seed}", lambda: _run_to_end(plant, arm, points, seed, recover))
    if run.fault:
        raise ValidationRejected(f"{arm}: {run.fault}")
    (log,) = run.logs.values()
    return motion_of(log, f"{arm}, motion of seed {seed}")


def _run_to_end(plant: CellConfig, arm: str, points: Matrix, seed: int, recover: bool) -> Run:
    """Run a motion on an arm. The run has a fault if the arm does not reach the end."""
    run = run_task(MotionTask(arm, points), plant, seed, recover=recover)
    if run.fault or run.seconds < points[-1, 0]:
        reason = run.fault or "the recording ended"
        return replace(
            run,
            fault=f"the motion ended after {run.seconds:.1f} of {points[-1, 0]:.1f} s: {reason}",
        )
    (log,) = run.logs.values()
    away = float(np.abs(log.q[-1] - points[-1, 1 : 1 + len(log.joints)]).max())
    if away > MAX_END_DISTANCE:
        return replace(run, fault=f"stopped {away:.2f} rad from the end of its motion")
    return run


MODEL_NAMES = ("data sheet", "identified")


@dataclass(frozen=True, eq=False)
class ModelImprovement:
    """Errors of one task on the plant with the data-sheet model and with the identified model.

    Attributes:
        number: Number of the task.
        controllet: Controllet used for the task.
        errors: Root mean square errors by name with unit: with the data-sheet model, then with the
            identified model. Each pair of runs is compared up to the end of the shorter run.
        series: Times, measured, true and requested forces of the first repeat, (m,) each, by model
            (:data:`MODEL_NAMES`). Empty if the task requests no force.
        runs: Number of runs with each model.
        early: Number of runs ended by a fault, with the data-sheet and with the identified model.
    """

    number: int
    controllet: str
    errors: Mapping[str, tuple[float, float]]
    series: Mapping[str, Mapping[str, Vector]]
    runs: int
    early: tuple[int, int]

    def as_dict(self) -> dict[str, Any]:
        """Return task, controllet, errors and counts as plain types, for the JSON file."""
        figures = {name: dict(zip(MODEL_NAMES, pair)) for name, pair in self.errors.items()}
        return {
            "task": self.number, "law": self.controllet, "rmse": figures,
            "runs": self.runs, "ended_early": dict(zip(MODEL_NAMES, self.early)),
        }  # fmt: skip


def gain_of(
    task: Task, datasheet_runs: Sequence[Run], identified_runs: Sequence[Run]
) -> ModelImprovement:
    """Compare the errors of a task with the data-sheet model and with the identified model."""
    early = tuple(
        sum(bool(run.fault) for run in runs) for runs in (datasheet_runs, identified_runs)
    )
    ends = [min(run.seconds for run in pair) for pair in zip(datasheet_runs, identified_runs)]
    cut = [
        [_until(run, end) for run, end in zip(runs, ends) if end >= MIN_COMMON_DURATION]
        for runs in (datasheet_runs, identified_runs)
    ]
    pairs = [_figures(task, runs) for runs in cut]
    series = {side: _series(task, runs[0]) for side, runs in zip(MODEL_NAMES, cut) if runs}
    return ModelImprovement(
        task.number,
        task.controllet,
        {name: (pairs[0][name], pairs[1][name]) for name in pairs[0] if name in pairs[1]},
        series if series and all(series.values()) else {},
        len(datasheet_runs),
        (early[0], early[1]),
    )


def _until(run: Run, seconds: float) -> Run:
    there = run.force_time <= seconds
    return replace(
        run,
        logs={name: log.between(-np.inf, seconds + 1e-9) for name, log in run.logs.items()},
        force=run.force[there],
        force_error=run.force_error[there],
        force_time=run.force_time[there],
    )


def _figures(task: Task, runs: Sequence[Run]) -> dict[str, float]:
    figures: dict[str, float] = {}
    pressing = [run for run in runs if len(run.force)]
    if pressing:
        figures["measured minus true force [N]"] = _rms(
            [np.linalg.norm(run.force_error, axis=2) for run in pressing]
        )
        figures["true minus requested force [N]"] = _rms(
            [run.force - _requested_force(task, run)[:, None] for run in pressing]
        )
    elif runs:
        columns = [log.columns for run in runs for log in run.logs.values()]
        figures["false contact torque [Nm]"] = _rms([own["tau_ext"] for own in columns])
        figures["false contact force [N]"] = _rms(
            [np.linalg.norm(own["wrench_ext_in_base"][:, :3], axis=1) for own in columns]
        )
    return figures


def _rms(values: Sequence[Vector]) -> float:
    return float(np.sqrt(np.mean(np.concatenate([part.ravel() for part in values]) ** 2)))


def _requested_force(task: Task, run: Run) -> Vector:
    desired = task.requested_force(run.force_time)
    return np.zeros(len(run.force)) if desired is None else desired


def _series(task: Task, run: Run) -> dict[str, Vector]:
    if not len(run.force):
        return {}
    error = run.force_error[:, 0]
    return {
        "time": run.force_time,
        "true": run.force[:, 0],
        "asked": _requested_force(task, run),
        "error x": error[:, 0],
        "error y": error[:, 1],
        "error z": error[:, 2],
    }
