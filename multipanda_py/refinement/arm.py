# SPDX-License-Identifier: Apache-2.0
"""Find a motion, let the plant go through it, and keep what identification takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.clearance import clearance_in
from multipanda_py.identification.excitation import Excitation, Wanted
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.logs.measured import motion_of
from multipanda_py.state import Matrix
from multipanda_py.targets import TRAJECTORY_POINTS
from multipanda_py.validation.motion_task import MotionTask
from multipanda_py.validation.record import Run, run_task
from multipanda_py.validation.validate import Keep, do_now

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
