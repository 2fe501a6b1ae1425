# SPDX-License-Identifier: Apache-2.0
"""What runs of tasks 3 and 4 have in them of the table."""

from __future__ import annotations

import numpy as np

from multipanda_py.exceptions import ValidationRefused
from multipanda_py.logs import ArmLog
from multipanda_py.state import Matrix, Vector
from multipanda_py.validation.record import Run

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
