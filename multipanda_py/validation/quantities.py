# SPDX-License-Identifier: Apache-2.0
"""What is compared between a plant and its twin, out of the log of an arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.logs import ArmLog
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector

PERIOD = 1e-3
"""Of the times at which two runs are compared [s]."""


@dataclass(frozen=True)
class Quantity:
    """One of the things compared.

    Attributes:
        name: As reports call it.
        unit: SI.
        axes: Names of its axes; one per joint if empty.
        ceiling: What the multipanda_ros2 paper reports between its simulation and real arms at
            most, for any task.
        counted: How many of the axes count over all; all if 0.
    """

    name: str
    unit: str
    axes: tuple[str, ...]
    ceiling: float
    counted: int = 0

    def labels(self, width: int) -> tuple[str, ...]:
        """Return names of the axes."""
        return self.axes or tuple(f"joint {k}" for k in range(1, width + 1))


QUANTITIES = (
    Quantity("q", "rad", (), 0.06),
    Quantity("dq", "rad/s", (), 0.05),
    Quantity("tau", "Nm", (), 1.3),
    Quantity("position", "m", ("x", "y", "z"), 0.013),
    Quantity("wrench", "N, Nm", ("fx", "fy", "fz", "mx", "my", "mz"), 1.7, 3),
    Quantity("control error", "Nm", (), 0.6),
)
"""q, dq, measured torque, position of the tool, external wrench (forces count over all), and
commanded minus achieved torque."""


@lru_cache(maxsize=4)  # of a comparison at a time: a sweep has thousands of arms
def _model(arm: ArmDescription) -> tuple[pin.Model, pin.Data]:
    model = heavy_model(arm)
    return model, model.createData()


def gravity_of(arm: ArmDescription, q: Matrix) -> Matrix:
    """Return the torques that carry an arm as it is described, (n, j) [Nm]."""
    model, data = _model(arm)
    return np.array([pin.computeGeneralizedGravity(model, data, row) for row in q])


def quantities(log: ArmLog, arm: ArmDescription, times: Vector) -> Mapping[str, Matrix]:
    """Return the quantities that a log has, at some times, each (n, axes).

    Args:
        log: Of the arm.
        arm: As it is described: its weight is what the robot adds by itself.
        times: Within the log, (n,) [s].
    """
    found: dict[str, Matrix] = {"q": log.q}
    if log.dq is not None:
        found["dq"] = log.dq
    if log.tau is not None:
        found["tau"] = log.tau
    for name, column in (("position", "position_ee_in_base"), ("wrench", "wrench_ext_in_base")):
        if column in log.columns:
            found[name] = log.columns[column]
    if "position" not in found:
        found["position"] = _positions(arm, log.q)
    if log.tau is not None and log.tau_commanded is not None:
        achieved = log.tau
        if log.gravity_in_tau and not log.gravity_in_tau_commanded:
            achieved = achieved - gravity_of(arm, log.q)
        # What a cycle measures was commanded in the one before.
        commanded = np.vstack([log.tau_commanded[:1], log.tau_commanded[:-1]])
        found["control error"] = commanded - achieved
    return {name: at_times(times, log.time, values) for name, values in found.items()}


def _positions(arm: ArmDescription, q: Matrix) -> Matrix:
    model, data = _model(arm)
    frame = model.getFrameId(arm.ee_frame)
    found = np.empty((len(q), 3))
    for row, values in zip(found, q):
        pin.forwardKinematics(model, data, values)
        row[:] = pin.updateFramePlacement(model, data, frame).translation
    return found


def at_times(times: Vector, own: Vector, values: Matrix) -> Matrix:
    """Return samples (n, axes) at their own times as they were at others, (m, axes)."""
    return np.stack([np.interp(times, own, column) for column in values.T], axis=1)
