# SPDX-License-Identifier: Apache-2.0
"""Damping of the tool along nearly singular directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import dot, maximum, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class SingularityParams:
    """Damping of ``Singularity``."""

    threshold: float = number(
        0.02, unit="1/kg", low=1e-6, high=10,
        doc="eigenvalue of the inverse inertia below which a direction is damped",
    )  # fmt: skip
    rate: float = number(
        20.0, unit="1/s", low=0, high=100,
        doc="rate at which motion along a singular direction decays",
    )  # fmt: skip


class Singularity(Feature[SingularityParams]):
    """Damping along directions with a high apparent mass of the tool.

    Equations::

        tau = -J^T D J dq
        D   = V diag(rho(w_i) / w_i) V^T
        J M^-1 J^T = V diag(w) V^T
        rho(w) = rho_0 (1 - w / eps)^2 if w < eps, else 0

    - tau: Joint torques, (n,) [Nm].
    - J: Jacobian, (6, n); M: inertia matrix, (n, n); dq: joint velocities, (n,) [rad/s].
    - D: Damping, (6, 6).
    - w, V: Eigenvalues [1/kg] and eigenvectors of the inverse task-space inertia.
    - rho_0: ``rate`` [1/s]; eps: ``threshold`` [1/kg].

    Near a singularity, an eigenvalue w approaches zero, and its direction has the apparent mass 1
    / w. Damping in proportion to this mass lets the motion decay at the rate rho in any
    configuration. For the twist dx in this direction, J M^-1 tau = -rho dx. The torque is bounded,
    because J^T v_i decreases with sqrt(w_i). It is zero above the threshold and continuously
    differentiable. The damping is dissipative.

    Source: the damping of Albu-Schäffer et al., ICRA 2003, for the inertia of Khatib 1987.
    """

    Params = SingularityParams

    def __init__(self, context: Context, params: SingularityParams) -> None:
        self._modes, self._rate = np.zeros(6), np.zeros(6)
        self._wrench, self._taus = np.zeros(6), context.joint_zeros()
        super().__init__(context, params)

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the damping of all arms near a singularity."""
        threshold = self.params.threshold
        for arm, state in enumerate(states):
            space = state.operational_space()
            if space.manipulability >= threshold:
                continue
            w, v = space.eigen()
            rate = self._rate
            maximum(subtract(1.0, w / threshold, rate), 0.0, out=rate)
            multiply(rate, rate, rate)
            multiply(rate, self.params.rate / np.maximum(w, _TINY), rate)
            modes = multiply(dot(state.twist_ee_in_base, v, self._modes), rate, self._modes)
            torque = dot(dot(v, modes, self._wrench), state.jacobian, self._taus[arm])
            subtract(tau[arm], torque, tau[arm])
