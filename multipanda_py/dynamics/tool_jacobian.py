# SPDX-License-Identifier: Apache-2.0
"""Which joint torques a wrench on the tool takes, outside the loop."""

from __future__ import annotations

import pinocchio as pin

from multipanda_py.dynamics.arm_model import build_pinocchio
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector

_AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED


class ToolJacobian:
    """Compute the geometric Jacobian of an arm's tool in any posture.

    Args:
        arm: Description of the arm, with its tool.

    Thread: any; it is one call, which keeps the interpreter and returns a copy.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._model = build_pinocchio(arm)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)

    def at(self, q: Vector) -> Matrix:
        """Return J at joint positions q [rad], (6, n), along the axes of the base."""
        jacobian: Matrix = pin.computeFrameJacobian(self._model, self._data, q, self._frame, _AXES)
        return jacobian
