# SPDX-License-Identifier: Apache-2.0
"""Compare a robot's own dynamic model with the model of this package."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.franka.robot_connection import PROBE_SPEED
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.robots import ARMATURE, ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, build_pinocchio
from multipanda_py.robots.inertial import STANDARD_GRAVITY
from multipanda_py.state import JOINTS, Matrix, Vector

_GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY])
# Number of rows of each matrix, which libfranka sends as a flat list.
_N_ROWS = {"mass": JOINTS, "coriolis": JOINTS, "gravity": JOINTS, "jacobian": 6}
_ROW_NAMES = ("x", "y", "z", "rotation about x", "rotation about y", "rotation about z")


@dataclass(frozen=True)
class Difference:
    """Maximum difference between the models of the robot and of this package in one quantity.

    Attributes:
        quantity: Name of the quantity: ``mass``, ``coriolis``, ``gravity`` or ``jacobian``.
        element: Description of the element with this difference, such as a joint.
        ours: Value in the model of this package.
        theirs: Value in the robot's model.
        tolerance: Permitted difference.
        unit: Unit of the values.
    """

    quantity: str
    element: str
    ours: float
    theirs: float
    tolerance: float
    unit: str

    @property
    def exceeds(self) -> bool:
        """True if the difference exceeds the tolerance, or is NaN."""
        return not abs(self.ours - self.theirs) <= self.tolerance

    def __str__(self) -> str:
        return (
            f"{self.quantity} at {self.element}: the robot has {self.theirs:.4g}, our model "
            f"{self.ours:.4g} {self.unit} (difference {self.theirs - self.ours:+.3g}, allowed "
            f"{self.tolerance:g})"
        )


class ModelCheck:
    """Comparison of the dynamic model in a robot with the model of this package."""

    def __init__(self, arm: ArmDescription) -> None:
        self._model: Any = build_pinocchio(arm)
        self._model.gravity.linear = arm.rotation_base_in_world.T @ _GRAVITY
        self._flange = LoadedFlange(self._model, arm.flange_frame)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)

    def compare(
        self, options: FrankaSettings, measurements: Mapping[str, Any]
    ) -> list[Difference]:
        """Return the maximum difference between the two models in each quantity.

        Args:
            options: Settings with the tolerances, and with the load for the model of this package.
            measurements: Robot's model as flat, column-major lists; see
                :func:`.robot_connection.measure`.

        Thread: control.
        """
        model, data = self._model, self._data
        self._flange.set_load(options.load)
        q, dq = np.array(measurements["q"]), np.full(JOINTS, PROBE_SPEED)
        gravity: Vector = np.array(pin.computeGeneralizedGravity(model, data, q))
        coriolis = np.array(pin.nonLinearEffects(model, data, q, dq)) - gravity
        mass = np.triu(pin.crba(model, data, q))
        # The robot's mass matrix excludes rotor inertias.
        mass = mass + np.triu(mass, 1).T - np.diag(ARMATURE)
        jacobian: Matrix = np.array(
            pin.computeFrameJacobian(model, data, q, self._frame, pin.LOCAL_WORLD_ALIGNED)
        )
        theirs = {key: _matrix(measurements[key], rows) for key, rows in _N_ROWS.items()}
        return [
            _largest("mass", mass, theirs["mass"], options.tolerance_mass, "kg m^2"),
            _largest("coriolis", coriolis, theirs["coriolis"], options.tolerance_coriolis, "Nm"),
            _largest("gravity", gravity, theirs["gravity"], options.tolerance_gravity, "Nm"),
            _largest("jacobian", jacobian, theirs["jacobian"], options.tolerance_jacobian,
                     "m/rad"),
        ]  # fmt: skip


def difference_message(differences: list[Difference]) -> str:
    """Return a message about the differences beyond their tolerance; empty if there are none."""
    result = [str(difference) for difference in differences if difference.exceeds]
    if not result:
        return ""
    return (
        f"the robot's model differs from ours: {'; '.join(result)}. The usual cause is a wrong "
        "tool or load: compare hand, tool, franka.load_mass and franka.tool_in_desk of the cell "
        "file with the end effector in Desk"
    )


def _matrix(numbers: list[float], rows: int) -> Matrix:
    array = np.array(numbers)
    return array if array.size == rows else array.reshape(rows, -1, order="F")


def _largest(
    quantity: str, ours: Matrix, theirs: Matrix, tolerance: float, unit: str
) -> Difference:
    gap = np.nan_to_num(np.abs(ours - theirs), nan=math.inf)
    at = np.unravel_index(int(np.argmax(gap)), gap.shape)
    element = f"joint {at[-1] + 1}"
    if quantity == "mass" and at[0] != at[1]:
        element = f"joints {at[0] + 1} and {at[1] + 1}"
    if quantity == "jacobian":
        element = f"joint {at[1] + 1}, {_ROW_NAMES[at[0]]}"
    return Difference(quantity, element, float(ours[at]), float(theirs[at]), tolerance, unit)
