# SPDX-License-Identifier: Apache-2.0
"""Imperfect sensors and motors of a simulated arm, the same in every run."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.config.sections import NoiseConfig
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.state import Vector

_rint = np.rint


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

    Attributes:
        offset: Bias and random walk of the torque sensors now, (n,) [Nm].
        noise_rng: Generator of the white noise.
        walk_rng: Generator of the random walk.

    Thread: control.
    """

    CHANGING = ("noise_rng", "walk_rng", "offset")

    def __init__(self, config: NoiseConfig, seed: int, period: float) -> None:
        self._number = seed
        self.noise_rng = np.random.default_rng(seed)
        self.walk_rng = np.random.default_rng((seed, 1))  # leaves the other draws as they are
        self.offset = np.array(config.tau_bias)
        self._step = np.array(config.tau_drift) * math.sqrt(period)
        self._drifts = bool(self._step.any())
        self._n = n = len(self.offset)
        self._sizes = np.repeat([config.q, config.dq, config.tau], n)
        self._noise = np.zeros(3 * n)
        self._parts = self._noise[:n], self._noise[n : 2 * n], self._noise[2 * n :]

    def reseed(self, seed: int) -> None:
        """Draw noise and walk anew; what the walk has come to stays."""
        self.noise_rng = np.random.default_rng((seed, self._number))
        self.walk_rng = np.random.default_rng((seed, self._number, 1))

    def measure(self, state: Measured) -> None:
        """Disturb positions, velocities and torques of a state."""
        noise, (position, velocity, torque) = self._noise, self._parts
        self.noise_rng.standard_normal(out=noise)
        np.multiply(self._sizes, noise, noise)
        state.q += position
        state.dq += velocity
        if self._drifts:
            self.offset += self._step * self.walk_rng.standard_normal(self._n)
        torque += self.offset
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
        _rint(tau, tau)
        tau *= self._step


class MeasuredStep(Stage):
    """Round what is measured to multiples of the steps in which sensors count.

    Args:
        config: The steps; 0 is none.

    Thread: control.
    """

    def __init__(self, config: NoiseConfig) -> None:
        steps = {
            "q": config.q_step, "dq": config.dq_step,
            "tau_J": config.tau_step, "tau_ext": config.tau_step,
        }  # fmt: skip
        self._steps = [(name, step) for name, step in steps.items() if step > 0.0]

    def measure(self, state: Measured) -> None:
        """Round positions, velocities and torques of a state."""
        for name, step in self._steps:
            values = getattr(state, name)
            values /= step
            _rint(values, values)
            values *= step
