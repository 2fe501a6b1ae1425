# SPDX-License-Identifier: Apache-2.0
"""Estimation of friction and contact parameters of a table from validation tasks 3 and 4.

The tool presses on the table: in task 3 with a sinusoidal force, in task 4 along a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.calibration.improvement import with_surface
from multipanda_py.identification.validation.record import Run
from multipanda_py.identification.validation.task import Task
from multipanda_py.identification.validation.validate import runs_of
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

HEIGHT_SCALE, FORCE_SCALE = 2e-5, 0.3
"""Differences of tool height [m] and tangential force [N] that have a residual of 1 in the fit."""
FORCE_BLOCK, HEIGHT_BLOCK = 50, 4
"""Block sizes for averaging noisy forces and heights, in samples."""
CONTACT_FORCE = 5.0
"""Measured force that counts as contact [N]."""


def tangential_force_signal(run: Run, up_in_base: Vector) -> Matrix:
    """Return measured forces tangential to the table minus their mean, in units of FORCE_SCALE.

    Args:
        run: Run of validation task 4, in which the tool presses along a circle.
        up_in_base: Normal of the table in the base frame, (3,).

    Raises:
        ValidationRejected: If no wrench was recorded.
    """
    (log,) = run.logs.values()
    force = _forces(log)
    blocks = _blocks(force - np.outer(force @ up_in_base, up_in_base), FORCE_BLOCK)
    centred: Matrix = (blocks - blocks.mean(axis=0)) / FORCE_SCALE
    return centred


def height_signal(run: Run, up_in_base: Vector) -> Matrix:
    """Return tool heights since first contact minus their mean, in units of :data:`HEIGHT_SCALE`.

    Args:
        run: Run of validation task 3, in which the tool presses with a sinusoidal force.
        up_in_base: Normal of the table in the base frame, (3,).

    Raises:
        ValidationRejected: If wrench or pose were not recorded.
    """
    (log,), before = run.logs.values(), list(run.settling.values())
    parts = [*before, log]
    pressed = np.concatenate([_forces(part) @ up_in_base for part in parts])
    touch = int((_blocks(pressed, HEIGHT_BLOCK)[:, 0] > CONTACT_FORCE).argmax()) * HEIGHT_BLOCK
    positions = np.concatenate([_column(part, "position_ee_in_base")[:, :3] for part in parts])
    height = positions[touch:] @ up_in_base
    last = len(height) - len(log) // 5  # In the last fifth of the task, the tool may lift off.
    return _blocks(height[:last] - height[:last].mean(), HEIGHT_BLOCK) / HEIGHT_SCALE


def _forces(log: ArmLog) -> Matrix:
    return _column(log, "wrench_ext_in_base")[:, :3]


def _column(log: ArmLog, name: str) -> Matrix:
    if name not in log.names:
        raise ValidationRejected(
            f"{log.arm}: {name} was not recorded. The estimate of table parameters needs this "
            f"signal; recorded: {', '.join(log.names)}"
        )
    values: Matrix = log[name]
    return values


def _blocks(values: Matrix, size: int) -> Matrix:
    count = len(values) // size
    blocks: Matrix = values[: count * size].reshape(count, size, -1).mean(axis=1)
    return blocks


TABLE = "table"
FITTED_PARAMETERS: Mapping[int, tuple[str, ...]] = {
    4: ("friction",),
    3: ("contact_time", "contact_damping"),
}
"""Names of the table parameters that a task determines, by number of the task."""
SIGNALS: Mapping[int, Callable[[Run, Vector], Matrix]] = {
    4: tangential_force_signal,
    3: height_signal,
}
MAX_CHANGE_FACTOR = 5.0
"""Maximum factor by which a parameter changes in one fit."""
MAX_RANGE_RATIO = 3.0
"""Maximum ratio of the upper to the lower bound of an accepted estimate."""
LOG_STEP = 0.03
"""Finite-difference step of the logarithm of a parameter. It is large because contact forces are
not smooth."""
MAX_ITERATIONS = 8
"""Maximum iterations of a fit. Each takes one run plus one per parameter."""
FAILURE_RESIDUAL = 10.0
"""Residual of the samples that a twin lacks because it ends the task early."""
_PARAMETER_BOUNDS: Mapping[str, tuple[float, float]] = {
    "friction": (0.01, 5.0), "contact_time": (0.002, 0.5), "contact_damping": (0.01, 10.0),
}  # fmt: skip


@dataclass(frozen=True)
class ContactParameters:
    """Estimated contact parameters of a table.

    Attributes:
        values: Accepted parameters by key of the cell file. Empty if none were accepted.
        spread: Lower and upper bound of each estimate, accepted or not, by key of the cell file.
            Their ratio is below :data:`MAX_RANGE_RATIO` for accepted parameters.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _PlantSignal:
    task: Task
    seed: int
    signal: Matrix


class ContactFit:
    r"""Estimator of the table parameters with which the twin reproduces the plant's contact.

    .. math::
        \min_{\mu} \sum \left\| \frac{\tilde f_{t,twin} - \tilde f_{t,plant}}{0.3\,\mathrm{N}}
        \right\|^2, \qquad
        \min_{T, \zeta} \sum \left( \frac{\tilde z_{twin} - \tilde z_{plant}}
        {20\,\mathrm{\mu m}} \right)^2.

    Symbols: sliding friction :math:`\mu`, and tangential forces :math:`f_t` while the tool presses
    along a circle (validation task 4). The contact has the time constant T and the damping ratio
    :math:`\zeta`. From first contact on, z is the height of the tool that presses with a
    sinusoidal force (task 3). The tilde denotes a signal minus its mean.

    Unmodelled effects can bias a parameter. The bias is bounded by

    .. math:: |\Delta x_i| \le \|r\| \, / \, \|J_{i\perp}\|.

    Symbols: logarithm :math:`x_i` of a parameter, residual r, and the part :math:`J_{i\perp}` of
    column i of the Jacobian that is orthogonal to the other columns.

    Args:
        plant: Cell with the table.
        task_runs: Validation tasks with their runs on the plant. Tasks other than 3 and 4 are
            ignored.
        seed: Random seed of the first run of each task.

    Attributes:
        left_out: Messages about tasks that yield no parameters.

    Raises:
        ValidationRejected: If a required signal was not recorded.
    """

    def __init__(
        self, plant: CellConfig, task_runs: Sequence[tuple[Task, Sequence[Run]]], seed: int
    ) -> None:
        (name,) = task_runs[0][0].names(plant)[:1]
        self._up = describe_arm(name, plant.arms[name]).rotation_base_in_world[2]
        self.left_out: list[str] = []
        self._plant_signals: dict[int, _PlantSignal] = {}
        for task, runs in task_runs:
            if task.number in FITTED_PARAMETERS and task.number not in self._plant_signals:
                whole = [k for k, run in enumerate(runs) if not run.fault]
                if whole:
                    signal = SIGNALS[task.number](runs[whole[0]], self._up)
                    self._plant_signals[task.number] = _PlantSignal(task, seed + whole[0], signal)
                else:
                    self.left_out.append(f"task {task.number} ended early: {runs[0].fault}")

    def fit(self, twin: CellConfig, log: Callable[[str], None]) -> ContactParameters:
        """Estimate the table parameters of the twin from the plant's runs."""
        values: dict[str, float] = {}
        spread: dict[str, Sequence[float]] = {}
        for number in FITTED_PARAMETERS:
            if number in self._plant_signals:
                result = self._search(with_surface(twin, TABLE, values), number, log)
                values.update(result.values)
                spread.update(result.spread)
        return ContactParameters(values, spread)

    def _search(
        self, twin: CellConfig, number: int, log: Callable[[str], None]
    ) -> ContactParameters:
        shown, names = self._plant_signals[number], FITTED_PARAMETERS[number]
        plant = shown.signal
        own = np.array([getattr(twin.objects[TABLE], name) for name in names])

        @lru_cache(maxsize=1)
        def left_at(values: tuple[float, ...]) -> Vector:
            surface = dict(zip(names, values))
            (run,) = runs_of(shown.task, with_surface(twin, TABLE, surface), 1, shown.seed)
            error = np.full(plant.shape, FAILURE_RESIDUAL)
            if not run.fault:
                estimate = SIGNALS[number](run, self._up)
                size = min(len(estimate), len(plant))
                error[:size] = estimate[:size] - plant[:size]
            words = ", ".join(f"{name} {value:.4g}" for name, value in surface.items())
            log(f"table: {words}: residual {np.sqrt(np.mean(error**2)):.4g}")
            return error.ravel()

        def left(x: Vector) -> Vector:
            return left_at(tuple(np.exp(x).tolist()))

        def slopes(x: Vector) -> Matrix:
            here, steps = left(x), LOG_STEP * np.eye(len(x))
            return np.stack([(left(x + step) - here) / LOG_STEP for step in steps], axis=1)

        low, high = np.log([_PARAMETER_BOUNDS[name] for name in names]).T
        low = np.maximum(low, np.log(own / MAX_CHANGE_FACTOR))
        high = np.minimum(high, np.log(own * MAX_CHANGE_FACTOR))
        x0 = np.clip(np.log(own), low + 1e-6, high - 1e-6)
        result = needed("scipy.optimize").least_squares(
            left, x0, slopes, bounds=(low, high), max_nfev=MAX_ITERATIONS, xtol=1e-2, ftol=1e-3
        )
        off = np.linalg.norm(result.fun) / np.maximum(_orthogonal_norms(result.jac), 1e-9)
        ends = np.exp([np.maximum(result.x - off, low), np.minimum(result.x + off, high)]).T
        # If the data do not determine one parameter of a task, its error can be compensated by the
        # other one. Neither is accepted then.
        is_determined = all(upper < MAX_RANGE_RATIO * lower for lower, upper in ends)
        return ContactParameters(
            {
                name: float(f"{value:.5g}")
                for name, value in zip(names, np.exp(result.x))
                if is_determined
            },
            {name: [float(f"{end:.5g}") for end in pair] for name, pair in zip(names, ends)},
        )


def _orthogonal_norms(jacobian: Matrix) -> Vector:
    """Return the norm of the part of each column that is orthogonal to all other columns, (n,)."""
    _, n = jacobian.shape
    lengths = np.empty(n)
    for k in range(n):
        others = np.delete(jacobian, k, axis=1)
        coefficients = np.linalg.lstsq(others, jacobian[:, k], rcond=None)[0]
        lengths[k] = np.linalg.norm(jacobian[:, k] - others @ coefficients)
    return lengths
