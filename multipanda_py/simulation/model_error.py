# SPDX-License-Identifier: Apache-2.0
"""What a robot gets wrong that goes by a model which is not that of the arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.extras import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.state import Vector

with extras_named():
    import mujoco

FILTER_TIME = 0.005
"""Of the estimate of external torques, which sees accelerations as its observer does [s]."""
_gravity, _inverse_dynamics = pin.computeGeneralizedGravity, pin.rnea
_subtract, _multiply = np.subtract, np.multiply


class ModelError(Stage):
    r"""Let an arm be carried by the torque of the described arm, and misjudge what it feels.

    .. math::
        \tau_{joint} = \tau + \hat g(q) - g(q), \qquad
        T \dot e + e = \hat h(q, \dot q, \ddot q) - h(q, \dot q, \ddot q), \qquad
        \hat\tau_{ext} = \tau_{ext} + e

    with the inverse dynamics h and the gravity g of the real arm, and those of the described one
    with a hat. An arm that does not compensate gravity gets the torque of the described one from
    the loop already, and one on springs from these.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        described: The arm as laws and robot believe it to be.
        real: The arm as it is simulated.
        dof: The first of its velocities.
        period: Cycle time [s].

    Attributes:
        error: Filtered error of the estimated external torque, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("error",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        described: ArmDescription,
        real: ArmDescription,
        dof: int,
        period: float,
    ) -> None:
        first = int(model.joint(described.joint_names[0]).qposadr[0])
        self._positions = data.qpos[first : first + described.n_joints]
        self._accelerations = data.qacc[dof : dof + described.n_joints]
        self._believed: Any = heavy_model(described)
        self._true: Any = heavy_model(real)
        self._believed_data, self._true_data = (
            self._believed.createData(),
            self._true.createData(),
        )
        self._carried = bool(real.compensates_gravity)
        self._follow = -math.expm1(-period / FILTER_TIME)
        self.error: Vector = np.zeros(described.n_joints)
        self._change: Vector = np.zeros(described.n_joints)

    def execute(self, tau: Vector) -> None:
        """Carry the described arm instead of the real one, in place."""
        if not self._carried:
            return
        q = self._positions
        tau += _gravity(self._believed, self._believed_data, q)
        tau -= _gravity(self._true, self._true_data, q)

    def measure(self, state: Measured) -> None:
        """Add what the estimate of external torques gets wrong."""
        q, dq, ddq = state.q, state.dq, self._accelerations
        change, error = self._change, self.error
        believed = _inverse_dynamics(self._believed, self._believed_data, q, dq, ddq)
        true = _inverse_dynamics(self._true, self._true_data, q, dq, ddq)
        _subtract(_subtract(believed, true, change), error, change)
        error += _multiply(self._follow, change, change)
        state.tau_ext += error
