# SPDX-License-Identifier: Apache-2.0
"""What is compared between an arm and the twin that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.limits import ArmLimits
from multipanda_py.shadow.arm_twin import STIFFNESS
from multipanda_py.state import Vector


@dataclass(frozen=True)
class ResidualKind:
    """One of the things compared.

    Attributes:
        name: As band files and messages call it.
        unit: SI.
        axes: Names of its axes; one per joint if empty.
        doc: What its residual is.
    """

    name: str
    unit: str
    axes: tuple[str, ...]
    doc: str

    def labels(self, joints: Sequence[str]) -> tuple[str, ...]:
        """Return names of the axes of an arm."""
        return self.axes or tuple(joints)


QUANTITIES = (
    ResidualKind("q", "rad", (), "measured minus the twin's positions"),
    ResidualKind("dq", "rad/s", (), "measured minus the twin's velocities"),
    ResidualKind("tau", "Nm", (), "measured torques minus those that the twin needs"),
    ResidualKind("external", "Nm", (), "torques felt from outside; the twin touches nothing"),
    ResidualKind(
        "wrench", "N, Nm", ("fx", "fy", "fz", "mx", "my", "mz"),
        "the same as a wrench on the tool, in the base",
    ),
    ResidualKind("correction", "Nm", (), "torque that keeps the twin at the arm"),
)  # fmt: skip
LEAST_TORQUE = 2e-3
"""Of the largest torque of a joint: half the width of a band at least."""


def places(joints: int) -> dict[str, slice]:
    """Return where each quantity stands among all numbers of an arm, by its name."""
    found, at = {}, 0
    for quantity in QUANTITIES:
        width = len(quantity.axes) or joints
        found[quantity.name] = slice(at, at + width)
        at += width
    return found


def smallest(limits: ArmLimits) -> Vector:
    """Return half the width that a band has at least, for all numbers of an arm.

    Sensors drift from hour to hour, and a simulated arm may be its own twin to the last bit: 0.2 %
    of the largest torque is nothing to look at, nor is what that moves the twin by.
    """
    n, torque = limits.n_joints, LEAST_TORQUE * limits.torque
    q = np.full(n, LEAST_TORQUE / STIFFNESS)
    wrench = np.array([0.5, 0.5, 0.5, 0.05, 0.05, 0.05])
    return np.concatenate([q, np.full(n, 5e-3), torque, torque, wrench, torque])
