# SPDX-License-Identifier: Apache-2.0
"""Forces of runs in which no simulation says what they truly were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from multipanda_py.robots import ArmDescription
from multipanda_py.validation.quantities import PERIOD, at_times
from multipanda_py.validation.record import Run
from multipanda_py.validation.task import STEP, Task

WRENCH = "wrench_ext_in_base"


def with_measured_force(task: Task, run: Run, arms: Mapping[str, ArmDescription]) -> Run:
    """Return a run of real arms, or a log, with the forces that its arms measured.

    Args:
        task: What was done; its scene is that of these arms.
        run: What was recorded; the same where forces are known, or none is asked for.
        arms: By their names in the run.
    """
    asks = task.asked_force(np.zeros(1)) is not None
    logs = [run.logs[name] for name in arms if name in run.logs]
    if not asks or len(run.force) or not logs or any(WRENCH not in log.columns for log in logs):
        return run
    times = np.arange(0.0, min(task.seconds, run.seconds), STEP * PERIOD)
    in_world = [
        at_times(times, log.time, log.columns[WRENCH][:, :3]) @ arm.rotation_base_in_world.T
        for log, arm in zip(logs, arms.values())
    ]
    forces = [task.felt_force(exerted) for exerted in np.stack(in_world, axis=1)]
    return replace(run, force=np.array(forces), force_time=times, force_is_measured=True)
