# SPDX-License-Identifier: Apache-2.0
"""What a real arm would have shown, by what was learned of it."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from multipanda_py.config.sections import NoiseConfig
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.simulation.drivetrain.drive import Measured, Stage
from multipanda_py.simulation.robot import SimRobot
from multipanda_py.state import Vector


class Delay(Stage):
    r"""Show the state of some cycles ago, :math:`x_{seen}(t) = x(t - \Delta)`.

    Args:
        cycles: How many.

    Attributes:
        past: Measured states that are not yet due, oldest first.

    Thread: control.
    """

    CHANGING = ("past",)

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self.past: deque[tuple[Vector, ...]] = deque()

    def measure(self, state: Measured) -> None:
        """Replace a measured state by the one that is due."""
        now = (state.q, state.dq, state.tau_J, state.tau_ext)
        self.past.append(tuple(part.copy() for part in now))
        seen = self.past.popleft() if len(self.past) > self._cycles else self.past[0]
        for part, value in zip(now, seen):
            part[:] = value


class CommandDelay(Stage):
    r"""Execute the torque of some cycles ago, :math:`\tau_m(t) = \tau(t - \Delta)`; none before.

    What is under way when the robot stops is never executed, also once it is recovered.

    Args:
        cycles: How many.
        joints: n.
        robot: Of the arm.

    Attributes:
        past: Torques that are under way, (cycles, n) [Nm].
        at: Row of ``past`` that is due next.

    Thread: control.
    """

    CHANGING = ("past", "at")

    def __init__(self, cycles: int, joints: int, robot: SimRobot) -> None:
        self.past: Vector = np.zeros((cycles, joints))
        self._due: Vector = np.zeros(joints)
        self.at, self._robot = 0, robot

    def execute(self, tau: Vector) -> None:
        """Replace commanded torques (n,) [Nm] by those that are due, in place."""
        if self._robot.stopped:
            self.past[:] = tau
        due, place = self._due, self.past[self.at]
        due[:] = place
        place[:] = tau
        tau[:] = due
        self.at = (self.at + 1) % len(self.past)


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


class ShownResidual(Stage):
    r"""Add a learned residual to what was measured.

    .. math:: (q, \dot q, \tau_J) \leftarrow (q, \dot q, \tau_J) + r, \qquad
        \tau_{ext} \leftarrow \tau_{ext} - r_\tau

    A torque that the joint shows and the model does not is felt from outside, the other way round.
    After another seed the network looks on anew, see :class:`.LiveResidual`; a loaded state of the
    world goes on as it was.

    Args:
        live: Of the arm.

    Thread: control.
    """

    CHANGING = ("memory",)

    def __init__(self, live: LiveResidual) -> None:
        self._live = live

    @property
    def memory(self) -> object:
        """What the network remembers."""
        return self._live.memory()

    @memory.setter
    def memory(self, saved: object) -> None:
        self._live.remember(saved)

    def measure(self, state: Measured) -> None:
        """Add it to positions, velocities and torques."""
        n = state.n_joints
        found = self._live.step(state.q, state.dq, state.tau_J)
        state.q += found[:n]
        state.dq += found[n : 2 * n]
        state.tau_J += found[2 * n :]
        state.tau_ext -= found[2 * n :]

    def reseed(self, seed: int) -> None:
        """Look on anew."""
        self._live.reset()
