# SPDX-License-Identifier: Apache-2.0
"""Simulated arm that repeats a task, with optional faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.identification.monitor import ArmMonitor, MonitoredLog
from multipanda_py.identification.validation import make_task
from multipanda_py.identification.validation.record import TaskCell
from multipanda_py.simulation.drivetrain.sensors import SensorNoise

BREAKS = 2.5
"""Time of a fault after the start of the task [s]."""
Break = Callable[[Cell], None]
NOISE = {"tau": 0.05, "dq": 0.002, "q": 1e-5, "torque_resolution": 0.005, "tau_bias": [0.1] * 7}
WRONG = {
    "coulomb": [0.3] * 7, "viscous": [0.2] * 7, "friction_offset": [0.05] * 7,
    "link_mass": [1.1, 0.9, 1.1, 0.95, 1.05, 0.9, 1.1], "command_delay": 0.001,
}  # fmt: skip


class Broken:
    """Fault during a task, from :data:`BREAKS` on."""

    def __init__(self, cell: TaskCell, fault: Break | None) -> None:
        self._aim, self._fault = cell.task.set_targets, fault
        cell.task.set_targets = self.aim

    def aim(self, cell: Cell, time: float) -> None:
        if self._fault is not None and time >= BREAKS:
            self._fault(cell)
        self._aim(cell, time)


def payload(mass: float) -> Break:
    """Return a fault that adds an undeclared payload [kg] to the last link."""

    def hang(cell: Cell) -> None:
        (name,) = cell.arms
        link = [body for body in cell.simulation.bodies if body.startswith(f"{name}_")][-1]
        cell.simulation.apply_wrench(link, force=(0.0, 0.0, -9.81 * mass))

    return hang


def friction(joint: int, torque: float) -> Break:
    """Return a fault that increases the friction of a joint by a torque [Nm]."""

    def rub(cell: Cell) -> None:
        dof = int(cell.simulation.model.joint(joint - 1).dofadr[0])
        cell.simulation.model.dof_frictionloss[dof] = 0.3 + torque

    return rub


def sensor(joint: int, bias: float) -> Break:
    """Return a fault that adds a bias to a torque sensor [Nm]."""

    def shift(cell: Cell) -> None:
        (drive,) = cell.loop.backends[0].drives
        (noise,) = [stage for stage in drive.stages if isinstance(stage, SensorNoise)]
        noise.offset = np.full(7, 0.1)
        noise.offset[joint - 1] += bias

    return shift


class Rig:
    """Arm in a validation task, with model errors and noise."""

    def __init__(self, task: int, law: str = "", seconds: float = 5.0, **arm) -> None:
        settings = {"position": [0.0, 0.0, 0.0], "noise": NOISE, "perturbation": WRONG, **arm}
        config = CellConfig.from_dict({"arms": {"arm": settings}})
        self.cell = TaskCell(make_task(task, law, seconds), config)
        self.arm = describe_arm("arm", self.cell.config.arms["arm"])

    def log(self, seed: int, fault: Break | None = None):
        aim = self.cell.task.set_targets
        Broken(self.cell, fault)
        try:
            run = self.cell.run(seed)
        finally:
            self.cell.task.set_targets = aim
            if fault is not None:
                self.cell.close()
        assert not run.fault, run.fault
        return run.logs["arm"]

    def monitored(self, seed: int, fault: Break | None = None) -> MonitoredLog:
        found = ArmMonitor(self.arm).follow(self.log(seed, fault))
        assert found is not None
        return found
