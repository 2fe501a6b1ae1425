# SPDX-License-Identifier: Apache-2.0
"""Imperfect sensors and motors of a simulated arm, the same in every run."""

from __future__ import annotations

import numpy as np

from multipanda_py.config import NoiseConfig
from multipanda_py.state import JOINTS, ArmState, Vector


class SensorNoise:
    """Add white noise to what is measured, and round torque to the steps that are executed.

    Args:
        config: Standard deviations and the torque step.
        seed: Of the noise; equal seeds give equal runs.
    """

    def __init__(self, config: NoiseConfig, seed: int) -> None:
        self._config = config
        self._random = np.random.default_rng(seed)

    def disturb(self, state: ArmState) -> None:
        """Add noise to positions, velocities and torques of a state. Thread: control."""
        config, normal = self._config, self._random.standard_normal
        state.q += config.q * normal(JOINTS)
        state.dq += config.dq * normal(JOINTS)
        torque = config.tau * normal(JOINTS)
        state.tau_J += torque
        state.tau_ext += torque

    def quantise(self, tau: Vector) -> None:
        """Round torques (7,) [Nm] to the step that is executed. Thread: control."""
        if self._config.torque_step > 0.0:
            tau /= self._config.torque_step
            np.rint(tau, out=tau)
            tau *= self._config.torque_step
