# SPDX-License-Identifier: Apache-2.0
"""Friction and contact of the table, out of tasks 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.extras import needed
from multipanda_py.refinement.put_back import with_surface
from multipanda_py.state import Matrix, Vector
from multipanda_py.validation.pressing_tasks import ForceCircle, ForceSine
from multipanda_py.validation.record import Run
from multipanda_py.validation.task import Task
from multipanda_py.validation.validate import runs_of

TABLE = "table"
DEPTH, FORCE = 2e-5, 0.3
"""Of a position and of a force: what a difference of one counts as [m, N]."""
CALM, QUICK = 50, 4
"""Samples of forces and of heights that are averaged, against noise."""
TOUCH = 5.0
"""Measured force from which on a tool touches [N]."""
WIDEST = 5.0
"""By which factor a number may change in one fit."""
EVALUATIONS = 5
"""Steps of a fit, each of one run and one per number."""


class Touch(ForceSine):
    """Task 3 from the first touch on, in which the contact swings."""

    settling = 0


Surface = dict[str, float]


class SurfaceFit:
    r"""Find the surface of the table with which a twin does what the plant did.

    .. math::
        \min_{\mu} \sum \left\| \frac{f_{t,twin} - f_{t,plant}}{0.3\,\mathrm{N}} \right\|^2,
        \qquad
        \min_{T, \zeta} \sum \left( \frac{\tilde z_{twin} - \tilde z_{plant}}
        {20\,\mathrm{\mu m}} \right)^2

    over logarithms: sliding friction by the measured forces along the table in task 4, time
    constant and damping ratio of the contact by the height of the tool in task 3 from the touch
    on, less its mean, as nobody knows the height of a table so well. Trust-region least squares
    with bounds; every run has the same seed, so a fit is the same every time.

    Args:
        plant: Whose table it is.
        seconds: Of each of the two runs.
        seed: Of all runs.

    Raises:
        ValidationRefused: If a run of the plant ends early.
    """

    def __init__(self, plant: CellConfig, seconds: float, seed: int) -> None:
        self._seconds, self._seed = seconds, seed
        (name,) = ForceCircle().names(plant)
        self._up = describe_arm(name, plant.arms[name]).rotation_base_in_world[2]
        self._circle, self._touch = (
            _run(kind("", seconds), plant, seed) for kind in (ForceCircle, Touch)
        )

    def fit(self, twin: CellConfig, say: Callable[[str], None]) -> Surface:
        """Return friction, contact_time and contact_damping of the twin's table."""
        own = twin.objects[TABLE]
        friction = self._search(twin, {"friction": own.friction}, ForceCircle, _along, say)
        twin = with_surface(twin, TABLE, friction)
        contact = {"contact_time": own.contact_time, "contact_damping": own.contact_damping}
        return {**friction, **self._search(twin, contact, Touch, _height, say)}

    def _search(
        self,
        twin: CellConfig,
        start: Surface,
        kind: type[Task],
        signal: Callable[[Run, Vector], Matrix],
        say: Callable[[str], None],
    ) -> Surface:
        plant = signal(self._circle if kind is ForceCircle else self._touch, self._up)
        names, first = list(start), np.log(list(start.values()))
        low, high = _bounds(names)

        def left(x: Vector) -> Vector:
            surface = dict(zip(names, np.exp(x).tolist()))
            try:
                run = _run(kind("", self._seconds), with_surface(twin, TABLE, surface), self._seed)
            except ValidationRefused:  # with such a table the task cannot be done
                return np.full(plant.size, 10.0)
            found = signal(run, self._up)
            size = min(len(found), len(plant))
            error = np.full(plant.shape, 10.0)
            error[:size] = found[:size] - plant[:size]
            values = ", ".join(f"{name} {value:.4g}" for name, value in surface.items())
            say(f"table: {values}: {np.sqrt(np.mean(error**2)):.4g}")
            return error.ravel()

        low = np.maximum(low, first - np.log(WIDEST))
        high = np.minimum(high, first + np.log(WIDEST))
        x0 = np.clip(first, low + 1e-6, high - 1e-6)
        found = needed("scipy.optimize").least_squares(
            left, x0, bounds=(low, high), diff_step=0.03, max_nfev=EVALUATIONS, xtol=1e-2,
            ftol=1e-3,
        )  # fmt: skip
        return {name: float(f"{value:.5g}") for name, value in zip(names, np.exp(found.x))}


def _bounds(names: Sequence[str]) -> tuple[Vector, Vector]:
    """Return what the cell file allows, as logarithms."""
    allowed: Mapping[str, tuple[float, float]] = {
        "friction": (0.01, 5.0), "contact_time": (0.002, 0.5), "contact_damping": (0.01, 10.0),
    }  # fmt: skip
    low, high = np.log([allowed[name] for name in names]).T
    return low, high


def _run(task: Task, cell: CellConfig, seed: int) -> Run:
    (run,) = runs_of(task, cell, 1, seed)
    if run.fault:
        raise ValidationRefused(f"task {task.number}: {run.fault}")
    return run


def _blocks(values: Matrix, size: int) -> Matrix:
    count = len(values) // size
    found: Matrix = values[: count * size].reshape(count, size, -1).mean(axis=1)
    return found


def _along(run: Run, up_in_base: Vector) -> Matrix:
    """Return forces along the table as measured, in units of :data:`FORCE`."""
    (log,) = run.logs.values()
    force = log.columns["wrench_ext_in_base"][:, :3]
    return _blocks(force - np.outer(force @ up_in_base, up_in_base), CALM) / FORCE


def _height(run: Run, up_in_base: Vector) -> Matrix:
    """Return the height of the tool from its touch on, less its mean, in units of DEPTH."""
    (log,) = run.logs.values()
    pressed = log.columns["wrench_ext_in_base"][:, :3] @ up_in_base
    touch = int((_blocks(pressed, QUICK)[:, 0] > TOUCH).argmax()) * QUICK
    height = log.columns["position_ee_in_base"][touch:, :3] @ up_in_base
    last = int(0.8 * len(height))  # then it may let go again
    return _blocks(height[:last] - height[:last].mean(), QUICK) / DEPTH
