# SPDX-License-Identifier: Apache-2.0
"""Preferred posture in the nullspace of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import vector
from multipanda_py.state import JOINTS, ArmState, Vector
from multipanda_py.targets import CartesianTarget

_dot, _multiply, _subtract, _add = np.dot, np.multiply, np.subtract, np.add


@dataclass(frozen=True, eq=False)
class NullspaceParams:
    """Gains of :class:`Nullspace`."""

    stiffness: Vector = vector(
        *[10.0] * JOINTS, unit="Nm/rad", low=0, high=500, doc="posture stiffness"
    )
    damping_ratio: Vector = vector(
        *[1.0] * JOINTS, low=0, high=5, doc="damping is 2 ratio sqrt(stiffness) Nm s/rad"
    )


class Nullspace(Feature[NullspaceParams]):
    r"""Pull the joints towards a posture without moving the tool.

    .. math::
        \tau = N \tau_0, \quad N = I - J^T \Lambda_d J M^{-1}, \quad
        \tau_0 = K_n (q_n - q) - 2 Z_n K_n^{1/2} \dot q

    The projector is dynamically consistent: :math:`J M^{-1} N = 0`, the term accelerates
    no task coordinate. Near a singularity :math:`\Lambda_d` is damped and the lost direction
    joins the nullspace. Source: Khatib 1987.
    """

    Params = NullspaceParams
    needs = ("posture",)

    def __init__(self, context: Context, params: NullspaceParams) -> None:
        self._tau, self._brake = np.zeros(JOINTS), np.zeros(JOINTS)
        self._task, self._wrench = np.zeros(6), np.zeros(6)
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare the damping gains."""
        self._damping = 2.0 * self.params.damping_ratio * np.sqrt(self.params.stiffness)

    def add(
        self,
        states: Sequence[ArmState],
        target: CartesianTarget,
        tau: Sequence[Vector],
        period: float,
    ) -> None:
        """Add the projected posture torques of every arm."""
        tau_0, brake = self._tau, self._brake
        for arm, state in enumerate(states):
            _subtract(target.posture[arm], state.q, tau_0)
            _multiply(tau_0, self.params.stiffness, tau_0)
            _subtract(tau_0, _multiply(state.dq, self._damping, brake), tau_0)
            space = state.operational_space()
            wrench = space.apply_inertia(_dot(tau_0, space.minv_jt, self._task), self._wrench)
            _subtract(tau_0, _dot(wrench, state.jacobian, brake), tau_0)
            _add(tau[arm], tau_0, tau[arm])
