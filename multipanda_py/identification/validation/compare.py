# SPDX-License-Identifier: Apache-2.0
"""Errors between the runs of a plant and of its twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.identification.validation.record import Run
from multipanda_py.identification.validation.task import Task
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.state import Matrix, Vector

PERIOD = 1e-3
"""Sample period for the comparison of two runs [s]."""


@dataclass(frozen=True)
class Quantity:
    """Quantity of an arm that is compared between plant and twin.

    Attributes:
        name: Name in reports.
        unit: SI unit.
        axes: Names of the components. If empty, there is one component per joint.
        ceiling: Maximum error between simulation and real arms in the multipanda_ros2 paper, over
            all tasks.
        counted: Number of components, from the first, that :meth:`.Comparison.overall` and
            :meth:`.Comparison.worst` include. 0: all components.
    """

    name: str
    unit: str
    axes: tuple[str, ...]
    ceiling: float
    counted: int = 0

    def labels(self, width: int) -> tuple[str, ...]:
        """Return the names of the components: the axes, or joint numbers if no axes are given."""
        return self.axes or tuple(f"joint {k}" for k in range(1, width + 1))


QUANTITIES = (
    Quantity("q", "rad", (), 0.06),
    Quantity("dq", "rad/s", (), 0.05),
    Quantity("tau", "Nm", (), 1.3),
    Quantity("position", "m", ("x", "y", "z"), 0.013),
    Quantity("wrench", "N, Nm", ("fx", "fy", "fz", "mx", "my", "mz"), 1.7, 3),
    Quantity("control error", "Nm", (), 0.6),
)
"""Compared quantities. The last one is commanded minus achieved torque. Of the wrench, only forces
count in the overall error."""


# One comparison needs four models or fewer. A sweep uses thousands, which must not fill the
# memory.
@lru_cache(maxsize=4)
def _model(arm: ArmDescription) -> tuple[pin.Model, pin.Data]:
    model = model_with_gravity(arm)
    return model, model.createData()


def gravity_of(arm: ArmDescription, q: Matrix) -> Matrix:
    """Return the gravity torques of an arm at positions ``q``, (n, j) [Nm]."""
    model, data = _model(arm)
    return np.array([pin.computeGeneralizedGravity(model, data, row) for row in q])


def quantities(log: ArmLog, arm: ArmDescription, times: Vector) -> Mapping[str, Matrix]:
    """Return all :data:`QUANTITIES` that a log contains, at given times, by name, (n, axes) each.

    Args:
        log: Log of the arm.
        arm: Description of the arm. Its model provides positions of the end effector and gravity
            torques that the log lacks.
        times: Times within the log, (n,) [s].
    """
    quantities: dict[str, Matrix] = {"q": log.q}
    if log.dq is not None:
        quantities["dq"] = log.dq
    if log.tau is not None:
        quantities["tau"] = log.tau
    for name, column in (("position", "position_ee_in_base"), ("wrench", "wrench_ext_in_base")):
        if column in log.columns:
            quantities[name] = log.columns[column]
    if "position" not in quantities:
        quantities["position"] = _positions(arm, log.q)
    if log.tau is not None and log.tau_commanded is not None:
        achieved = log.tau
        if log.gravity_in_tau and not log.gravity_in_tau_commanded:
            achieved = achieved - gravity_of(arm, log.q)
        # The torque measured in a cycle is the response to the command of the cycle before.
        commanded = np.vstack([log.tau_commanded[:1], log.tau_commanded[:-1]])
        quantities["control error"] = commanded - achieved
    return {name: at_times(times, log.time, values) for name, values in quantities.items()}


def _positions(arm: ArmDescription, q: Matrix) -> Matrix:
    model, data = _model(arm)
    frame = model.getFrameId(arm.ee_frame)
    positions = np.empty((len(q), 3))
    for row, values in zip(positions, q):
        pin.forwardKinematics(model, data, values)
        row[:] = pin.updateFramePlacement(model, data, frame).translation
    return positions


def at_times(times: Vector, sample_times: Vector, values: Matrix) -> Matrix:
    """Interpolate samples (n, axes) linearly at other times, (m, axes).

    Args:
        times: Times to interpolate at, (m,) [s].
        sample_times: Times of the samples, (n,) [s].
        values: Samples, (n, axes).
    """
    return np.stack([np.interp(times, sample_times, column) for column in values.T], axis=1)


MIN_COMMON_DURATION = 0.2
"""Minimum common duration of two runs to be compared [s]."""
_AVERAGING_TIME = 0.05  # Window of the moving average of a force [s].
_MAX_RIPPLE = 2.0  # Maximum deviation of a steady force from its moving average [N].


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors between plant and twin in one task.

    ``force``, ``force_measurement_error``, ``ripple`` and ``tanks`` are mappings with the keys
    ``plant`` and ``twin``.

    Attributes:
        number: Number of the task.
        title: Title of the task.
        controllet: Controllet used for the task.
        repeats: Number of compared pairs of runs.
        errors: Root mean square errors by arm and quantity, (repeats, axes).
        force: Root mean square differences of contact force and requested force, (repeats, arms)
            [N]. Empty if the task requests no force.
        force_measurement_error: Root mean square norms of measured minus true contact force,
            (repeats, arms) [N]. Real arms have no entry.
        ripple: Largest root mean square deviation of the force from its 50 ms moving average,
            (repeats,) [N].
        tanks: Lowest energy of each energy tank of a controllet, by name of the tank [J].
        faults: Messages about runs that ended early.
        series: Time series of the first repeat for plots, see :func:`compare`.
        full: Number of repeats in which the twin had no fault before the end of the plant's run.
        measured: Keys of ``force`` with values measured by real arms. Values of the other keys are
            contact forces of a simulation.
    """

    number: int
    title: str
    controllet: str
    repeats: int
    errors: Mapping[str, Mapping[str, Matrix]]
    force: Mapping[str, Matrix]
    force_measurement_error: Mapping[str, Matrix]
    ripple: Mapping[str, Vector]
    tanks: Mapping[str, Mapping[str, float]]
    faults: tuple[str, ...]
    series: Mapping[str, Any]
    full: int
    measured: tuple[str, ...] = ()

    def ended_early(self, side: str) -> int:
        """Return the number of runs of ``plant`` or ``twin`` that ended on a fault."""
        return sum(fault.startswith(side) for fault in self.faults)

    def overall(self, arm: str, quantity: str) -> Vector:
        """Return the root mean square error of a quantity for each repeat, (repeats,).

        The error covers the first ``counted`` components of the :class:`Quantity`.
        """
        counted = next(q.counted for q in QUANTITIES if q.name == quantity)
        errors = self.errors[arm][quantity][:, : counted or None]
        result: Vector = np.sqrt(np.mean(errors**2, axis=1))
        return result

    def worst(self, quantity: str) -> float:
        """Return the largest error of a quantity over arms and components, averaged over repeats.

        The result is nan if the quantity was not recorded.
        """
        counted = next(q.counted for q in QUANTITIES if q.name == quantity)
        result = [
            float(of_arm[quantity][:, : counted or None].mean(axis=0).max())
            for of_arm in self.errors.values()
            if quantity in of_arm
        ]
        return max(result, default=float("nan"))

    def stable(self, side: str) -> bool | None:
        """Return True if the ripple of the contact force was below 2 N in all repeats.

        The result is False if a run ended early, and None for a task without a contact force.

        Args:
            side: ``plant`` or ``twin``.
        """
        ripple = self.ripple.get(side, np.zeros(0))
        if self.ended_early(side):
            return False
        return bool((ripple < _MAX_RIPPLE).all()) if len(ripple) else None

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison without its time series as plain types, for the JSON file."""
        return {
            "task": self.number, "title": self.title, "law": self.controllet,
            "repeats": self.repeats,
            "errors": {
                arm: {
                    name: {
                        "per_axis_mean": rows.mean(axis=0).tolist(),
                        "per_axis_std": rows.std(axis=0).tolist(),
                        "overall_mean": float(self.overall(arm, name).mean()),
                        "overall_std": float(self.overall(arm, name).std()),
                    }
                    for name, rows in of_arm.items()
                }
                for arm, of_arm in self.errors.items()
            },
            "worst": {
                q.name: self.worst(q.name)
                for q in QUANTITIES
                if any(q.name in of_arm for of_arm in self.errors.values())
            },
            "force_rmse": {
                side: {"mean": rows.mean(axis=0).tolist(), "std": rows.std(axis=0).tolist()}
                for side, rows in self.force.items()
            },
            "force_as_measured_by_the_arm": list(self.measured),
            "force_measured_rmse": {
                side: {"mean": rows.mean(axis=0).tolist(), "std": rows.std(axis=0).tolist()}
                for side, rows in self.force_measurement_error.items()
            },
            "force_ripple": {side: rows.tolist() for side, rows in self.ripple.items()},
            "stable": {side: self.stable(side) for side in ("plant", "twin")},
            "tanks_lowest": {side: dict(of) for side, of in self.tanks.items()},
            "ended_early": {side: self.ended_early(side) for side in ("plant", "twin")},
            "faults": list(self.faults),
        }  # fmt: skip


def compare(
    task: Task,
    plants: Sequence[Run],
    twins: Sequence[Run],
    arms: Mapping[str, ArmDescription],
) -> Comparison:
    """Compare the runs of a plant with those of its twin, repeat by repeat.

    If a run ended early, both runs of its repeat are compared up to that time.

    The attribute ``series`` of the result has the first pair of runs, for plots. Its keys
    ``plant`` and ``twin`` contain the quantities of each arm, (n, axes), at ``time``, (n,). Its
    key ``force`` contains forces, requested force and tank energies of plant and twin, if the task
    has a force.

    Args:
        task: Task of the runs.
        plants: Runs of the plant, by repeat.
        twins: Runs of the twin, as many as of the plant.
        arms: Descriptions of the arms by their names in the plant.
    """
    errors: dict[str, dict[str, list[Vector]]] = {arm: {} for arm in arms}
    series: dict[str, Any] = {}
    faults, count, full = [], 0, 0
    for repeat, pair in enumerate(zip(plants, twins), start=1):
        for side, run in zip(("plant", "twin"), pair):
            if run.fault:
                faults.append(f"{side}, repeat {repeat}, after {run.seconds:.2f} s: {run.fault}")
        full += not pair[1].fault or pair[1].seconds >= pair[0].seconds
        seconds = min(task.seconds, *(run.seconds for run in pair))
        if seconds < MIN_COMMON_DURATION:
            continue
        count += 1
        times = np.arange(0.0, seconds, PERIOD)
        for arm, description in arms.items():
            plant, twin = (quantities(run.logs[arm], description, times) for run in pair)
            for name in plant:
                if name in twin:
                    error = np.sqrt(np.mean((plant[name] - twin[name]) ** 2, axis=0))
                    errors[arm].setdefault(name, []).append(error)
            if count == 1:
                series["time"] = times
                series.setdefault("plant", {})[arm] = plant
                series.setdefault("twin", {})[arm] = twin
    sides = {"plant": plants, "twin": twins}
    if task.requested_force(np.zeros(1)) is not None:
        series["force"] = {
            side: {
                "time": run.force_time, "force": run.force,
                "asked": task.requested_force(run.force_time), "tanks": run.tanks,
                "tank_time": run.tank_time,
            }
            for side, runs in sides.items()
            for run in runs[:1]
        }  # fmt: skip
    forces = {side: _force_errors(task, runs) for side, runs in sides.items()}
    return Comparison(
        number=task.number,
        title=task.title,
        controllet=task.controllet,
        repeats=count,
        errors={
            arm: {name: np.array(rows) for name, rows in of_arm.items()}
            for arm, of_arm in errors.items()
            if of_arm
        },
        force={side: rows for side, rows in forces.items() if len(rows)},
        measured=tuple(
            side for side, runs in sides.items() if any(run.force_is_measured for run in runs)
        ),
        force_measurement_error={
            side: np.array(rows)
            for side, runs in sides.items()
            for rows in [[_rms_norms(run.force_error) for run in runs if len(run.force_error)]]
            if rows
        },
        ripple={
            side: result
            for side, runs in sides.items()
            for result in [
                np.array([_max_force_ripple(run) for run in runs if len(run.force) > 20])
            ]
            if len(result)
        },
        tanks={
            side: {
                name: min(float(run.tanks[name].min()) for run in runs if name in run.tanks)
                for name in {name: None for run in runs for name in run.tanks}
            }
            for side, runs in sides.items()
            if any(run.tanks for run in runs)
        },
        faults=tuple(faults),
        series=series,
        full=full,
    )


def _force_errors(task: Task, runs: Sequence[Run]) -> Matrix:
    rows = []
    for run in runs:
        desired = task.requested_force(run.force_time)
        if desired is None or not len(run.force):
            continue
        rows.append(np.sqrt(np.mean((run.force - desired[:, None]) ** 2, axis=0)))
    return np.array(rows)


def _rms_norms(error: Matrix) -> Vector:
    """Return the root mean square norm of force errors (m, arms, 3) of each arm, (arms,) [N]."""
    length: Vector = np.sqrt((error**2).sum(axis=2).mean(axis=0))
    return length


def _max_force_ripple(run: Run) -> float:
    """Return the largest root mean square deviation of a force from its moving average [N]."""
    width = max(1, round(_AVERAGING_TIME / max(float(np.median(np.diff(run.force_time))), 1e-4)))
    kernel = np.ones(width) / width
    result = [
        np.std(force[width:-width] - np.convolve(force, kernel, "same")[width:-width])
        for force in run.force.T
    ]
    return float(max(result))
