# SPDX-License-Identifier: Apache-2.0
"""Imperfect sensors and motors of a simulated arm, the same in every run."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.config.sections import NoiseConfig
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.state import Vector


class SensorNoise(Stage):
    r"""Add white noise to what is measured, and to torques a constant and a random walk.

    .. math::
        \hat\tau_{ext} = \tau_{ext} + e, \qquad \tau_{J,seen} = \tau_J - e, \qquad
        e = \tau_{bias} + w + n, \qquad w_{k+1} = w_k + d \sqrt{T}\,\nu_k

    with :math:`n, \nu` white. An estimate of external torques is what inertia, Coriolis and
    gravity leave of the measured ones: a sensor that shows too little makes it too much.

    Args:
        config: Standard deviations, bias and drift.
        seed: Of the noise; equal seeds give equal runs.
        period: Cycle time T [s].

    Thread: control.
    """

    CHANGING = ("_random", "_walking", "_offset")

    def __init__(self, config: NoiseConfig, seed: int, period: float) -> None:
        self._config, self._number = config, seed
        self._random = np.random.default_rng(seed)
        self._walking = np.random.default_rng((seed, 1))  # leaves the other draws as they are
        self._offset = np.array(config.tau_bias)
        self._step = np.array(config.tau_drift) * math.sqrt(period)
        self._drifts = bool(self._step.any())

    def reseed(self, seed: int) -> None:
        """Draw noise and walk anew; what the walk has come to stays."""
        self._random = np.random.default_rng((seed, self._number))
        self._walking = np.random.default_rng((seed, self._number, 1))

    def measure(self, state: Measured) -> None:
        """Disturb positions, velocities and torques of a state."""
        config, normal, n = self._config, self._random.standard_normal, state.n_joints
        state.q += config.q * normal(n)
        state.dq += config.dq * normal(n)
        torque = config.tau * normal(n)
        if self._drifts:
            self._offset += self._step * self._walking.standard_normal(n)
        torque += self._offset
        state.tau_J -= torque
        state.tau_ext += torque


class TorqueStep(Stage):
    """Round torques to multiples of the step in which they are executed.

    Args:
        step: The step [Nm].
    """

    def __init__(self, step: float) -> None:
        self._step = step

    def execute(self, tau: Vector) -> None:
        """Round torques (n,) [Nm]. Thread: control."""
        tau /= self._step
        np.rint(tau, out=tau)
        tau *= self._step


class MeasuredStep(Stage):
    """Round what is measured to multiples of the steps in which sensors count.

    Args:
        config: The steps; 0 is none.

    Thread: control.
    """

    def __init__(self, config: NoiseConfig) -> None:
        self._q, self._dq, self._tau = config.q_step, config.dq_step, config.tau_step

    def measure(self, state: Measured) -> None:
        """Round positions, velocities and torques of a state."""
        for values, step in (
            (state.q, self._q), (state.dq, self._dq),
            (state.tau_J, self._tau), (state.tau_ext, self._tau),
        ):  # fmt: skip
            if step > 0.0:
                values /= step
                np.rint(values, out=values)
                values *= step
