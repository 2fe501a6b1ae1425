# SPDX-License-Identifier: Apache-2.0
"""Textbook laws of other stacks, implemented from their equations as third-party controllets.

They run in the same loop, limits and simulation as the controllets of this package. The gains of
each stack are in :mod:`cases`. Filters of states and torques, and lower limits of the torque rate,
are omitted. This favours the stacks that have them, since each adds delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.linalg import eigh, inv, solve

from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import choice, number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import CartesianTarget, JointTarget


@dataclass(frozen=True, eq=False)
class TextbookJointParams:
    """Gains of :class:`TextbookJointImpedance`."""

    stiffness: Vector = vector(24, 24, 24, 24, 10, 6, 2, unit="Nm/rad", low=0)
    damping: Vector = vector(2, 2, 2, 1, 1, 1, 0.5, unit="Nm s/rad")


class TextbookJointImpedance(Controllet[JointTarget, TextbookJointParams]):
    r"""Joint spring and constant damper: :math:`\tau = K (q_d - q) - D \dot q`."""

    Params, Target = TextbookJointParams, JointTarget

    def on_activate(self, states: Sequence[ArmState], target: JointTarget) -> None:
        """Set the target to the measured configuration."""
        for arm, state in enumerate(states):
            target.q[arm][:] = state.q

    def update(self, states: Sequence[ArmState], target: JointTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        for arm, state in enumerate(states):
            spring = self.params.stiffness * (target.q[arm] - state.q)
            np.subtract(spring, self.params.damping * state.dq, self.tau[arm])


@dataclass(frozen=True, eq=False)
class TextbookCartesianParams:
    """Gains of :class:`TextbookCartesianImpedance`."""

    stiffness: Vector = vector(200, 200, 200, 10, 10, 10, unit="N/m, Nm/rad", low=0)
    damping: Vector = vector(*[-1.0] * 6, unit="N s/m, Nm s/rad", doc="negative: 2 sqrt(k)")
    design: str = choice(
        "diagonal",
        options=("diagonal", "inertia", "operational_space"),
        doc="given damping, square-root design with the inertia, or inertia times acceleration",
    )
    damping_ratio: float = number(0.8, low=0, doc="damping ratio of design inertia")
    regularisation: float = number(
        0.01, low=0, doc="regularisation of the inertia of design operational_space"
    )
    error_clip: Vector = vector(*[10.0] * 6, unit="m, rad", low=0)
    posture_stiffness: float = number(0.5, unit="Nm/rad", low=0)
    projector: str = choice("kinematic", options=("kinematic", "dynamic"))
    posture_torque: float = number(100.0, unit="Nm", low=0, doc="maximum torque in the nullspace")


class TextbookCartesianImpedance(Controllet[CartesianTarget, TextbookCartesianParams]):
    r"""Spring and damper at the tool, and a joint spring in the nullspace.

    .. math::
        \tau = J^T A (K e - D J \dot q)
             + \mathrm{clip}(N (k_n (q_n - q) - 2 \sqrt{k_n} \dot q)), \qquad
        A = I \text{ or } \Lambda

    D is diagonal (default :math:`2 \sqrt{k}`), or :math:`\zeta (\Lambda^{1/2} K^{1/2} + K^{1/2}
    \Lambda^{1/2})`. N is :math:`I - J^T (J^T)^+` or :math:`I - J^T \Lambda J M^{-1}`.
    """

    Params, Target = TextbookCartesianParams, CartesianTarget
    default_features = ("coriolis",)

    def __init__(self, context: Context, params: TextbookCartesianParams) -> None:
        self._error = np.zeros(6)
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Set the target to the measured pose and configuration."""
        target.seed(states)

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        p, error = self.params, self._error
        for arm, state in enumerate(states):
            error[:3] = target.position_ee_in_base[arm] - state.position_ee_in_base
            error[3:] = pin.log3(target.rotation_ee_in_base[arm] @ state.rotation_ee_in_base.T)
            np.clip(error, -p.error_clip, p.error_clip, out=error)
            twist = state.jacobian @ state.dq
            wrench = p.stiffness * error - self._damping(state) @ twist
            if p.design == "operational_space":
                wrench = self._inertia(state) @ wrench
            k = p.posture_stiffness
            joint_torques = (
                k * (target.nullspace_configuration[arm] - state.q) - 2.0 * np.sqrt(k) * state.dq
            )
            nullspace_torques = self._project(state, joint_torques)
            np.clip(nullspace_torques, -p.posture_torque, p.posture_torque, out=nullspace_torques)
            self.tau[arm][:] = state.jacobian.T @ wrench + nullspace_torques

    def _damping(self, state: ArmState) -> Matrix:
        p = self.params
        if p.design == "inertia":
            w, v = eigh(self._inertia(state, exact=True))
            root = (v * np.sqrt(np.maximum(w, 0.0))) @ v.T * np.sqrt(p.stiffness)
            return p.damping_ratio * (root + root.T)
        return np.diag(np.where(p.damping < 0.0, 2.0 * np.sqrt(p.stiffness), p.damping))

    def _inertia(self, state: ArmState, exact: bool = False) -> Matrix:
        mobility = state.jacobian @ inv(state.mass_matrix) @ state.jacobian.T
        if exact:
            return inv(mobility)
        w, v = eigh(mobility)
        return (v * (w / (w * w + self.params.regularisation**2))) @ v.T

    def _project(self, state: ArmState, tau: Vector) -> Vector:
        j = state.jacobian
        if self.params.projector == "kinematic":
            return tau - j.T @ solve(j @ j.T, j @ tau)
        return tau - j.T @ (
            self._inertia(state, exact=True) @ (j @ (inv(state.mass_matrix) @ tau))
        )
