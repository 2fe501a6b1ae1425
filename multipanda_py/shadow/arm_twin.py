# SPDX-License-Identifier: Apache-2.0
"""The described arm, moved by the torques of the real one and drawn softly to where that is."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.arm_model import LoadedFlange
from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.load import NO_LOAD, Load
from multipanda_py.state import Vector

STIFFNESS = 0.6
"""Of the correction, as a share of a joint's largest torque [1/rad, 1/m]."""
LONGEST_STEP = 1e-3
"""Of the integration [s]."""
TURN = 0.01
"""Velocity within which Coulomb friction turns round [rad/s, m/s]."""

_forward, _gravity = pin.aba, pin.computeGeneralizedGravity


class ArmTwin:
    r"""Integrate what the description says of an arm, as an observer of the measured one.

    .. math::
        M(\hat q) \ddot{\hat q} + c(\hat q, \dot{\hat q}) + g(q) + f(\dot q)
        = u + \tau_{ext} + \tau_c, \qquad
        \tau_c = K (q - \hat q) + D (\dot q - \dot{\hat q})

    with the torque u that the arm was given, gravity included, and the friction f of the
    description, its offset included. Gravity is that of the measured posture: that of the twin's
    own would be a spring as stiff as K, which pushes an upright arm over; friction is that of the
    measured velocity. Without the correction :math:`\tau_c` the twin would drift off: half a
    newton metre that it does not know of takes a joint a radian away within seconds. K is 0.6 of a
    joint's torque limit per radian and D damps critically for what the joint moves in this
    posture: 5 to 25 rad/s. So :math:`\tau_c` is, below this bandwidth, what command, description
    and felt forces leave unexplained.

    Args:
        arm: As it is described, with hand and tool.
        load: What its flange carries beyond them.
        gravity_in_base: (3,) [m/s^2]; by default as the arm stands.

    Attributes:
        q: Positions of the twin, (n,) [rad, m].
        dq: Its velocities, (n,) [rad/s, m/s].
        correction: Mean of :math:`\tau_c` over the last :meth:`step`, (n,) [Nm, N].

    Thread: one at a time.
    """

    def __init__(
        self, arm: ArmDescription, load: Load = NO_LOAD, gravity_in_base: Vector | None = None
    ) -> None:
        self._model = heavy_model(arm)
        LoadedFlange(self._model, arm.flange_frame).carry(load)
        if gravity_in_base is not None:
            self._model.gravity.linear = gravity_in_base
        self._weighing = self._model.createData()
        self._floating = self._model.copy()
        self._floating.gravity = pin.Motion.Zero()
        self._data = self._floating.createData()
        self._stiffness: Vector = STIFFNESS * arm.limits.torque
        self._viscous, self._coulomb = arm.joint_damping, arm.joint_frictionloss
        self._offset = arm.robot.torque_offset
        self._damping: Vector = np.zeros(arm.n_joints)
        self.q, self.dq, self.correction = np.zeros((3, arm.n_joints))

    def place(self, q: Vector, dq: Vector) -> None:
        """Put the twin to where the arm is."""
        self.q[:], self.dq[:], self.correction[:] = q, dq, 0.0
        self.adapt(q)

    def adapt(self, q: Vector) -> None:
        """Damp critically for what the joints move in a posture, (n,) [rad, m]."""
        mass = pin.crba(self._model, self._weighing, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        moved = 1.0 / np.linalg.inv(mass).diagonal()
        self._damping[:] = 2.0 * np.sqrt(self._stiffness * moved)

    def gravity(self, q: Vector) -> Vector:
        """Return what carries the arm as it is described, (n,) [Nm, N]."""
        found: Vector = _gravity(self._model, self._weighing, q)
        return found

    def friction(self, dq: Vector) -> Vector:
        """Return what the description's friction takes, (n,) [Nm, N]."""
        found: Vector = self._viscous * dq + self._coulomb * np.tanh(dq / TURN) + self._offset
        return found

    def step(self, q: Vector, dq: Vector, torque: Vector, period: float) -> None:
        r"""Move on by one period, from where the arm is measured at its beginning.

        Args:
            q: Measured at the beginning, (n,) [rad, m].
            dq: Likewise, (n,) [rad/s, m/s].
            torque: :math:`u + \tau_{ext}` meanwhile, (n,) [Nm, N].
            period: How long [s].
        """
        steps = max(1, round(period / LONGEST_STEP))
        step = period / steps
        free = torque - self.gravity(q) - self.friction(dq)
        total = np.zeros_like(free)
        for k in range(steps):
            pull = self._stiffness * (q + (k * step) * dq - self.q)
            pull += self._damping * (dq - self.dq)
            total += pull
            self.dq += step * _forward(self._floating, self._data, self.q, self.dq, free + pull)
            self.q += step * self.dq
        self.correction[:] = total / steps
