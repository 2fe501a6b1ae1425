# SPDX-License-Identifier: Apache-2.0
"""Compensation of Coriolis and centrifugal torques."""

from __future__ import annotations

from collections.abc import Sequence

from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import NoParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

FADE_TIME = 0.1
"""Time in which the power of the compensation fades out after a direction becomes free [s]."""
RESTING_ENERGY = 1e-6
"""Kinetic energy below which the power of the compensation is not removed [J]."""


class Coriolis(Feature[NoParams]):
    """Coriolis compensation, which decouples the motion of the axes.

    Equation::

        tau = C dq - s (dq^T C dq) / (dq^T M dq) M dq

    - tau: Joint torques, (n,) [Nm].
    - C: Coriolis matrix, (n, n); M: inertia matrix, (n, n).
    - dq: Joint velocities, (n,) [rad/s].
    - s: 1 if the controllet leaves a direction of the tool without stiffness, 0 if not.

    With s = 1, the second term removes the power of the compensation, so a free tool does not gain
    kinetic energy.
    """

    def __init__(self, context: Context, params: NoParams) -> None:
        self._weights, self._free = [0.0] * context.n_arms, [False] * context.n_arms
        self._momenta, self._torques = context.joint_zeros(), context.joint_zeros()
        self._step = context.period / FADE_TIME
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Set the factor s of each arm: 1 if its tool has a direction without stiffness."""
        if self.controllet is not None:
            self._free = self.controllet.is_free
        self._weights = [1.0 if self.is_free(arm) else 0.0 for arm in range(len(states))]

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the Coriolis torques of all arms."""
        for arm, torque in enumerate(tau):
            state = states[arm]
            add(torque, state.coriolis, torque)
            if self._free[arm] or self._weights[arm]:
                self._subtract_energy_term(arm, state, torque)

    def _subtract_energy_term(self, arm: int, state: ArmState, torque: Vector) -> None:
        step = self._step if self._free[arm] else -self._step
        self._weights[arm] = scale = min(1.0, max(0.0, self._weights[arm] + step))
        momentum = dot(state.mass_matrix, state.dq, self._momenta[arm])
        power, twice_energy = float(state.dq.dot(state.coriolis)), float(state.dq.dot(momentum))
        if twice_energy > 2.0 * RESTING_ENERGY:
            scale *= power / twice_energy
            subtract(torque, multiply(momentum, scale, self._torques[arm]), torque)
