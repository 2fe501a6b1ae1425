# SPDX-License-Identifier: Apache-2.0
"""Friction and contact of the table, out of tasks 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.calibration.improvement import with_surface
from multipanda_py.identification.validation.record import Run
from multipanda_py.identification.validation.task import Task
from multipanda_py.identification.validation.validate import runs_of
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

DEPTH, FORCE = 2e-5, 0.3
"""Of a position and of a force: what a difference of one counts as [m, N]."""
CALM, QUICK = 50, 4
"""Samples of forces and of heights that are averaged, against noise."""
TOUCH = 5.0
"""Measured force from which on a tool touches [N]."""


def along(run: Run, up_in_base: Vector) -> Matrix:
    """Return forces along the table as measured, less their mean, in units of :data:`FORCE`.

    Args:
        run: Of task 4.
        up_in_base: Normal of the table, (3,).

    Raises:
        ValidationRefused: If no wrench was recorded.
    """
    (log,) = run.logs.values()
    force = _forces(log)
    found = _blocks(force - np.outer(force @ up_in_base, up_in_base), CALM)
    centred: Matrix = (found - found.mean(axis=0)) / FORCE
    return centred


def height(run: Run, up_in_base: Vector) -> Matrix:
    """Return the height of the tool from its touch on, less its mean, in units of :data:`DEPTH`.

    Args:
        run: Of task 3.
        up_in_base: Normal of the table, (3,).

    Raises:
        ValidationRefused: If no wrench or no pose was recorded, or nothing before the task.
    """
    (log,), before = run.logs.values(), list(run.settling.values())
    parts = [*before, log]
    pressed = np.concatenate([_forces(part) @ up_in_base for part in parts])
    touch = int((_blocks(pressed, QUICK)[:, 0] > TOUCH).argmax()) * QUICK
    places = np.concatenate([_column(part, "position_ee_in_base")[:, :3] for part in parts])
    found = places[touch:] @ up_in_base
    last = len(found) - len(log) // 5  # then it may let go again
    return _blocks(found[:last] - found[:last].mean(), QUICK) / DEPTH


def _forces(log: ArmLog) -> Matrix:
    return _column(log, "wrench_ext_in_base")[:, :3]


def _column(log: ArmLog, name: str) -> Matrix:
    if name not in log.names:
        raise ValidationRefused(
            f"{log.arm}: {name} was not recorded, by which a table is told; got "
            f"{', '.join(log.names)}"
        )
    values: Matrix = log[name]
    return values


def _blocks(values: Matrix, size: int) -> Matrix:
    count = len(values) // size
    found: Matrix = values[: count * size].reshape(count, size, -1).mean(axis=1)
    return found


TABLE = "table"
KEYS: Mapping[int, tuple[str, ...]] = {4: ("friction",), 3: ("contact_time", "contact_damping")}
"""What a task tells of a table."""
SIGNALS: Mapping[int, Callable[[Run, Vector], Matrix]] = {4: along, 3: height}
WIDEST = 5.0
"""By which factor a number may change in one fit."""
TOLD = 3.0
"""Widest range of a number that is told, largest by smallest."""
STEP = 0.03
"""Of a logarithm, over which slopes are taken: contacts are not smooth."""
EVALUATIONS = 8
"""Steps of a fit, each of one run and one per number."""
UNLIKE = 10.0
"""What a difference counts as where a twin cannot do the task."""
_ALLOWED: Mapping[str, tuple[float, float]] = {
    "friction": (0.01, 5.0), "contact_time": (0.002, 0.5), "contact_damping": (0.01, 10.0),
}  # fmt: skip


@dataclass(frozen=True)
class FoundSurface:
    """What was found of a table; empty where nothing was looked for.

    Attributes:
        values: By key of the cell file, those that are told.
        spread: From where to where each could be: see :class:`SurfaceFit`. Where one could be
            :data:`TOLD` times as large at one end as at the other, none of its task is told.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Shown:
    task: Task
    seed: int
    signal: Matrix


class SurfaceFit:
    r"""Find the surface of the table with which a twin does what the plant did.

    .. math::
        \min_{\mu} \sum \left\| \frac{\tilde f_{t,twin} - \tilde f_{t,plant}}{0.3\,\mathrm{N}}
        \right\|^2, \qquad
        \min_{T, \zeta} \sum \left( \frac{\tilde z_{twin} - \tilde z_{plant}}
        {20\,\mathrm{\mu m}} \right)^2

    over logarithms x: sliding friction by the measured forces along the table in task 4, time
    constant and damping ratio of the contact by the height of the tool in task 3 from the touch
    on, both less their mean: nobody knows the height of a table so well, and a torque sensor that
    is off by 0.1 Nm is felt as a force that would count as friction. Trust-region least squares
    with bounds; every run has the same seed, so a fit is the same every time.

    What is left of the differences r, such as friction of joints that identification does not
    tell, may point where a number would: the range of each has

    .. math:: |\Delta x_i| \le \|r\| \, / \, \|J_{i\perp}\|

    with the part of a column of the Jacobian J that the others do not have. No error that is
    as large as what is left can move the number further.

    Args:
        plant: Whose table it is.
        shown: Tasks with their runs on it; 4 tells friction, 3 the contact.
        seed: Of the first run of each.

    Attributes:
        left_out: Why a task tells nothing of the table, in sentences.

    Raises:
        ValidationRefused: If what tells of a table was not recorded.
    """

    def __init__(
        self, plant: CellConfig, shown: Sequence[tuple[Task, Sequence[Run]]], seed: int
    ) -> None:
        (name,) = shown[0][0].names(plant)[:1]
        self._up = describe_arm(name, plant.arms[name]).rotation_base_in_world[2]
        self.left_out: list[str] = []
        self._shown: dict[int, _Shown] = {}
        for task, runs in shown:
            if task.number in KEYS and task.number not in self._shown:
                whole = [k for k, run in enumerate(runs) if not run.fault]
                if whole:
                    signal = SIGNALS[task.number](runs[whole[0]], self._up)
                    self._shown[task.number] = _Shown(task, seed + whole[0], signal)
                else:
                    self.left_out.append(f"task {task.number} ended early: {runs[0].fault}")

    def fit(self, twin: CellConfig, say: Callable[[str], None]) -> FoundSurface:
        """Return what the plant's runs tell of the twin's table."""
        values: dict[str, float] = {}
        spread: dict[str, Sequence[float]] = {}
        for number in KEYS:
            if number in self._shown:
                found = self._search(with_surface(twin, TABLE, values), number, say)
                values.update(found.values)
                spread.update(found.spread)
        return FoundSurface(values, spread)

    def _search(self, twin: CellConfig, number: int, say: Callable[[str], None]) -> FoundSurface:
        shown, names = self._shown[number], KEYS[number]
        plant = shown.signal
        own = np.array([getattr(twin.objects[TABLE], name) for name in names])

        @lru_cache(maxsize=1)
        def left_at(values: tuple[float, ...]) -> Vector:
            surface = dict(zip(names, values))
            (run,) = runs_of(shown.task, with_surface(twin, TABLE, surface), 1, shown.seed)
            error = np.full(plant.shape, UNLIKE)
            if not run.fault:
                found = SIGNALS[number](run, self._up)
                size = min(len(found), len(plant))
                error[:size] = found[:size] - plant[:size]
            words = ", ".join(f"{name} {value:.4g}" for name, value in surface.items())
            say(f"table: {words}: {np.sqrt(np.mean(error**2)):.4g}")
            return error.ravel()

        def left(x: Vector) -> Vector:
            return left_at(tuple(np.exp(x).tolist()))

        def slopes(x: Vector) -> Matrix:
            here, steps = left(x), STEP * np.eye(len(x))
            return np.stack([(left(x + step) - here) / STEP for step in steps], axis=1)

        low, high = np.log([_ALLOWED[name] for name in names]).T
        low = np.maximum(low, np.log(own / WIDEST))
        high = np.minimum(high, np.log(own * WIDEST))
        x0 = np.clip(np.log(own), low + 1e-6, high - 1e-6)
        found = needed("scipy.optimize").least_squares(
            left, x0, slopes, bounds=(low, high), max_nfev=EVALUATIONS, xtol=1e-2, ftol=1e-3
        )
        off = np.linalg.norm(found.fun) / np.maximum(_own_lengths(found.jac), 1e-9)
        ends = np.exp([np.maximum(found.x - off, low), np.minimum(found.x + off, high)]).T
        told = all(most < TOLD * least for least, most in ends)  # they stand for one another
        return FoundSurface(
            {name: float(f"{value:.5g}") for name, value in zip(names, np.exp(found.x)) if told},
            {name: [float(f"{end:.5g}") for end in pair] for name, pair in zip(names, ends)},
        )


def _own_lengths(jacobian: Matrix) -> Vector:
    """Return how long columns are without what the others have of them, (n,)."""
    _, n = jacobian.shape
    lengths = np.empty(n)
    for k in range(n):
        others = np.delete(jacobian, k, axis=1)
        share = np.linalg.lstsq(others, jacobian[:, k], rcond=None)[0]
        lengths[k] = np.linalg.norm(jacobian[:, k] - others @ share)
    return lengths
