# SPDX-License-Identifier: Apache-2.0
"""External torques of an arm from what its joints execute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.state import Vector

BANDWIDTH = 50.0
"""Of the estimate, where nothing else is said [1/s]."""


class MomentumObserver:
    r"""Estimate external joint torques from the generalised momentum.

    .. math::
        r = K \left( p(t) - p(0) - \int (\tau_J + C^T \dot q - g + r) \, dt \right), \qquad
        p = M \dot q

    which follows the true torques as a first-order lag with K, and needs no accelerations (De
    Luca, Albu-Schäffer, Haddadin and Hirzinger, 2006).

    Args:
        model: Pinocchio's, with tool and load; gravity acts as its base stands.
        bandwidth: K [1/s].

    Thread: of its owner.
    """

    def __init__(self, model: Any, bandwidth: float = BANDWIDTH) -> None:
        self._bandwidth = bandwidth
        self._model, self._data = model, model.createData()
        self._integral = np.zeros(model.nv)
        self._estimate = np.zeros(model.nv)
        self._begun = self._goes_on = False

    @property
    def estimate(self) -> Vector:
        """The last one, (n,) [Nm]; live."""
        return self._estimate

    def restart(self) -> None:
        """Begin anew from zero with the next state: what was estimated is of no use any more."""
        self._begun = False
        self._estimate[:] = 0.0

    def resume(self) -> None:
        """Go on from the last estimate with the next state, whatever the arm did in between."""
        self._goes_on = True

    def update(self, q: Vector, dq: Vector, tau_J: Vector, period: float) -> Vector:
        """Return the estimate after one more period, (n,) [Nm]; zero at the first state.

        Args:
            q: (n,) [rad].
            dq: (n,) [rad/s].
            tau_J: Executed since the last state, gravity included, (n,) [Nm].
            period: Since the last state [s].
        """
        model, data = self._model, self._data
        mass = pin.crba(model, data, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        momentum = mass @ dq
        if not self._begun:
            self._begun, self._goes_on = True, False
            self._integral[:], self._estimate[:] = momentum, 0.0
        elif self._goes_on:
            self._goes_on = False
            self._integral[:] = momentum - self._estimate / self._bandwidth
        coriolis = pin.computeCoriolisMatrix(model, data, q, dq)
        gravity = pin.computeGeneralizedGravity(model, data, q)
        self._integral += period * (tau_J + coriolis.T @ dq - gravity)
        # Implicit in the new estimate, so that it is stable at any rate.
        gain = self._bandwidth / (1.0 + self._bandwidth * period)
        self._estimate[:] = gain * (momentum - self._integral)
        self._integral += period * self._estimate
        return self._estimate
