# SPDX-License-Identifier: Apache-2.0
"""Sensor and command imperfections: delays, noise, quantization and trained residuals."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy import rint

from multipanda_py.config.arm_section import NoiseConfig
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage, Measured
from multipanda_py.simulation.robot import SimRobot
from multipanda_py.state import Vector


class Delay(DrivetrainStage):
    """Delay of the measured state by a number of cycles.

    Args:
        cycles: Number of cycles.

    Attributes:
        pending: Measured states of the last cycles, oldest first.

    Thread: control.
    """

    CHANGING = ("pending",)

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self.pending: deque[tuple[Vector, ...]] = deque()

    def measure(self, state: Measured) -> None:
        """Replace the measured state by the delayed one, or by the oldest state at the start."""
        now = (state.q, state.dq, state.tau_J, state.tau_ext)
        self.pending.append(tuple(part.copy() for part in now))
        delayed = self.pending.popleft() if len(self.pending) > self._cycles else self.pending[0]
        for part, value in zip(now, delayed):
            part[:] = value


class CommandDelay(DrivetrainStage):
    """Delay of the commanded torque by a number of cycles; the first executed torques are zero.

    A collision stop of the robot discards the pending commands.

    Args:
        cycles: Number of cycles.
        joints: Number of joints, n.
        robot: Simulated robot of the arm.

    Attributes:
        pending: Commanded torques that have not been executed yet, (cycles, n) [Nm].
        at: Row of ``pending`` that is executed next.

    Thread: control.
    """

    CHANGING = ("pending", "at")

    def __init__(self, cycles: int, joints: int, robot: SimRobot) -> None:
        self.pending: Vector = np.zeros((cycles, joints))
        self._delayed_command: Vector = np.zeros(joints)
        self.at, self._robot = 0, robot

    def execute(self, tau: Vector) -> None:
        """Replace commanded torques, (n,) [Nm], by delayed ones, in place."""
        if self._robot.stopped:
            self.pending[:] = tau
        delayed, slot = self._delayed_command, self.pending[self.at]
        delayed[:] = slot
        slot[:] = tau
        tau[:] = delayed
        self.at = (self.at + 1) % len(self.pending)


class SensorNoise(DrivetrainStage):
    r"""White noise of all measurements, with bias and random walk of the torque sensors.

    .. math::
        \hat\tau_{ext} = \tau_{ext} + e, \qquad \tau_{J,measured} = \tau_J - e, \qquad
        e = \tau_{bias} + w + n, \qquad w_{k+1} = w_k + d \sqrt{T}\,\nu_k .

    Here :math:`\tau_{bias}` is the configured bias, n and :math:`\nu` are white noise, w is the
    random walk, d its drift and T the cycle time.

    Args:
        config: Standard deviations, bias and drift.
        seed: Seed of the noise; equal seeds give equal runs.
        period: Cycle time T [s].

    Attributes:
        offset: Current bias plus random walk of the torque sensors, (n,) [Nm].
        noise_rng: Generator of the white noise.
        walk_rng: Generator of the random walk.

    Thread: control.
    """

    CHANGING = ("noise_rng", "walk_rng", "offset")

    def __init__(self, config: NoiseConfig, seed: int, period: float) -> None:
        self._seed = seed
        self.noise_rng = np.random.default_rng(seed)
        # The random walk has its own generator, so that runs with and without drift have the same
        # noise.
        self.walk_rng = np.random.default_rng((seed, 1))
        self.offset = np.array(config.tau_bias)
        self._step = np.array(config.tau_drift) * math.sqrt(period)
        self._drifts = bool(self._step.any())
        self._n = n = len(self.offset)
        self._sizes = np.repeat([config.q, config.dq, config.tau], n)
        self._noise = np.zeros(3 * n)
        self._parts = self._noise[:n], self._noise[n : 2 * n], self._noise[2 * n :]

    def reseed(self, seed: int) -> None:
        """Restart the generators of noise and random walk; :attr:`offset` keeps its value."""
        self.noise_rng = np.random.default_rng((seed, self._seed))
        self.walk_rng = np.random.default_rng((seed, self._seed, 1))

    def measure(self, state: Measured) -> None:
        """Add noise to positions, velocities and torques of a state."""
        noise, (position, velocity, torque) = self._noise, self._parts
        self.noise_rng.standard_normal(out=noise)
        np.multiply(self._sizes, noise, noise)
        state.q += position
        state.dq += velocity
        if self._drifts:
            self.offset += self._step * self.walk_rng.standard_normal(self._n)
        torque += self.offset
        # The estimate is inverse dynamics minus measured torque, so the signs differ.
        state.tau_J -= torque
        state.tau_ext += torque


class TorqueStep(DrivetrainStage):
    """Quantization of executed torques.

    Args:
        step: Quantization step [Nm].

    Thread: control.
    """

    def __init__(self, step: float) -> None:
        self._step = step

    def execute(self, tau: Vector) -> None:
        """Round torques, (n,) [Nm], in place."""
        tau /= self._step
        rint(tau, tau)
        tau *= self._step


class MeasuredStep(DrivetrainStage):
    """Quantization of measurements.

    Args:
        config: Quantization steps of each quantity; 0 leaves it unchanged.

    Thread: control.
    """

    def __init__(self, config: NoiseConfig) -> None:
        steps = {
            "q": config.q_resolution, "dq": config.dq_resolution,
            "tau_J": config.tau_resolution, "tau_ext": config.tau_resolution,
        }  # fmt: skip
        self._steps = [(name, step) for name, step in steps.items() if step > 0.0]

    def measure(self, state: Measured) -> None:
        """Round positions, velocities and torques of a state, in place."""
        for name, step in self._steps:
            values = getattr(state, name)
            values /= step
            rint(values, values)
            values *= step


class MeasurementResidual(DrivetrainStage):
    r"""Correction of the measured state by a residual network from the cell file.

    .. math:: (q, \dot q, \tau_J) \leftarrow (q, \dot q, \tau_J) + r, \qquad
        \tau_{ext} \leftarrow \tau_{ext} - r_\tau .

    Here r is the output of the network and :math:`r_\tau` its torque part.

    Args:
        live: Residual network of the arm (key ``residual.state``).

    Thread: control.
    """

    CHANGING = ("memory",)

    def __init__(self, live: LiveResidual) -> None:
        self._live = live

    @property
    def memory(self) -> object:
        """Hidden state of the network, as saved with the simulation."""
        return self._live.internal_state()

    @memory.setter
    def memory(self, saved: object) -> None:
        self._live.restore(saved)

    def measure(self, state: Measured) -> None:
        """Add the residual to positions, velocities and torques."""
        n = state.n_joints
        result = self._live.step(state.q, state.dq, state.tau_J)
        state.q += result[:n]
        state.dq += result[n : 2 * n]
        state.tau_J += result[2 * n :]
        state.tau_ext -= result[2 * n :]

    def reseed(self, seed: int) -> None:
        """Reset the hidden state of the network; ``seed`` is unused."""
        self._live.reset()
