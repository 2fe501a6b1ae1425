# SPDX-License-Identifier: Apache-2.0
"""Compensation of Coriolis and centrifugal torques."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.parameters import NoParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target

_add, _dot, _multiply, _subtract = np.add, np.dot, np.multiply, np.subtract

FADE_TIME = 0.1
"""Time in which the power of the compensation is taken back, once a direction is free [s]."""
RESTING_ENERGY = 1e-6
"""Kinetic energy up to which the compensation is left as it is [J]."""


class Coriolis(Feature[NoParams]):
    r"""Add :math:`C(q, \dot q)\,\dot q`, so that motion in one axis does not push another.

    .. math::
        \tau = C \dot q - s\, \frac{\dot q^T C \dot q}{\dot q^T M \dot q}\, M \dot q

    The compensation does work: :math:`\dot q^T C \dot q = \tfrac12 \dot q^T \dot M \dot q`. A
    law that holds all directions of the tool takes it out by its dampers, and :math:`s = 0`.
    While a direction is free, nothing takes it out, and :math:`s = 1`: the second term takes the
    power back along the motion, so that a free tool keeps its kinetic energy.
    """

    def __init__(self, context: Context, params: NoParams) -> None:
        self._shares, self._free = [0.0] * context.n_arms, [False] * context.n_arms
        self._momenta, self._torques = context.joint_zeros(), context.joint_zeros()
        self._step = context.period / FADE_TIME
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Take the power back from the first cycle on, if a direction is free."""
        if self.law is not None:
            self._free = self.law.is_free
        self._shares = [1.0 if self.is_free(arm) else 0.0 for arm in range(len(states))]

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the Coriolis torques of every arm."""
        for arm, torque in enumerate(tau):
            state = states[arm]
            _add(torque, state.coriolis, torque)
            if self._free[arm] or self._shares[arm]:
                self._take_back(arm, state, torque)

    def _take_back(self, arm: int, state: ArmState, torque: Vector) -> None:
        """Subtract the power of the compensation along the motion of an arm."""
        step = self._step if self._free[arm] else -self._step
        self._shares[arm] = share = min(1.0, max(0.0, self._shares[arm] + step))
        momentum = _dot(state.mass, state.dq, self._momenta[arm])
        power, twice_energy = float(state.dq.dot(state.coriolis)), float(state.dq.dot(momentum))
        if twice_energy > 2.0 * RESTING_ENERGY:
            share *= power / twice_energy
            _subtract(torque, _multiply(momentum, share, self._torques[arm]), torque)
