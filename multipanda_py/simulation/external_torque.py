# SPDX-License-Identifier: Apache-2.0
"""What the joints of a world feel from outside."""

from __future__ import annotations

import numpy as np

from multipanda_py.extras import extras_named
from multipanda_py.state import Vector

with extras_named():
    import mujoco


class ExternalTorque:
    r"""Read it off the equation of motion, of the last step.

    .. math:: \tau_{ext} = J_c^T f_c + \tau_{applied} + \sum_b J_b^T F_b

    contacts, applied joint torques and applied body wrenches, without joint stops and
    friction, which are the arm's own.

    Args:
        model: The world.
        data: Its state.

    Attributes:
        torque: Of all degrees of freedom, (nv,) [Nm].

    Thread: control.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        # MuJoCo keeps its arrays where they are; to ask for one costs 0.3 us each time.
        self._smooth, self._bias = data.qfrc_smooth, data.qfrc_bias
        self._passive, self._actuator = data.qfrc_passive, data.qfrc_actuator
        self._contact = np.zeros(model.nv)
        self.torque: Vector = np.zeros(model.nv)

    def estimate(self) -> None:
        """Refresh it."""
        data, out = self._data, self.torque
        # What mj_fwdAcceleration added up beyond the arm's own torques.
        np.add(self._smooth, self._bias, out)
        np.subtract(out, self._passive, out)
        np.subtract(out, self._actuator, out)
        if data.ncon and data.nefc:
            force = data.efc_force.copy()
            force[: data.ne + data.nf + data.nl] = 0.0  # equalities, friction, stops
            mujoco.mj_mulJacTVec(self._model, data, self._contact, force)
            out += self._contact
