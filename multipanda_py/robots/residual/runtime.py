# SPDX-License-Identifier: Apache-2.0
"""Predictions of residual networks, in a control cycle or for states of any simulator."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy import absolute, add, dot, maximum, minimum, multiply, subtract

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.arm import ArmDescription
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.network import RealTimeNetwork
from multipanda_py.robots.residual.weights import TrainedResidual, load_residual
from multipanda_py.state import Vector

FADE_DISTANCE = 0.05
"""Distance of a normalised state from the training range at which the residual has faded to
zero."""
WARM_UP_TIME = 0.5
"""Time for which the network only processes states before it predicts [s]."""


class LiveResidual:
    r"""Prediction of the residual between a robot and its simulation, in a control cycle.

    .. math::
        r = s\, w \cdot \mathrm{clip}(\hat r + \hat\tau_b, \pm \hat r_{max})
        (x_{high} - x_{low}), \qquad |\hat\tau_b| \le \hat r_{max}, \qquad
        w = \mathrm{clip}\left(1 - \frac{d}{0.05}, 0, 1\right).

    :math:`\hat r` is the normalised residual of the network and :math:`\hat r_{max}` its maximum
    in the training data. :math:`\hat\tau_b` are the normalised torques of
    :class:`.BodyDifference`. :class:`.Normalisation` has the limits :math:`x_{low}, x_{high}`. d
    is the distance of the normalised state from the range of the training data. The factor s is 0
    for 0.5 s at the start and after a state that is not finite, then ramps to 1 in 0.5 s.

    Args:
        trained: Real-time network with its data.
        period: Cycle time of :meth:`step` [s].
        robot: Name of the arm's model.
        joints: Names of the arm's joints.
        phase: Number of the cycle in which the network first runs.

    Attributes:
        residual: Residual r of positions, velocities and torques, (3 n,) [rad, rad/s, Nm].
        of_bodies: Torques of :class:`.BodyDifference`, limited to the maximum residual, (n,) [Nm].
            Zero if the network was trained without them.
        confidence: Product s w of both factors, 0 to 1.

    Raises:
        ConfigurationError: The network belongs to another robot or is a precise network, or its
            rate does not fit the cycle time.

    Thread: one at a time.
    """

    def __init__(
        self,
        trained: TrainedResidual,
        period: float,
        robot: str,
        joints: tuple[str, ...],
        phase: int = 0,
    ) -> None:
        net = trained.network()
        if not isinstance(net, RealTimeNetwork):
            raise ConfigurationError(
                f"residual: got a {trained.kind} network, allowed real_time, which needs no "
                "future states"
            )
        if (robot, len(joints)) != (trained.robot, len(trained.joints)):
            raise ConfigurationError(
                f"residual: got {robot} with {len(joints)} joints, allowed {trained.robot} with "
                f"{len(trained.joints)}, as in the training"
            )
        if joints != trained.joints:
            raise ConfigurationError(
                f"residual: got joints {', '.join(joints)}, allowed {', '.join(trained.joints)}, "
                "as in the training"
            )
        every = 1.0 / (trained.rate * period)
        if every < 0.999 or abs(every - round(every)) > 1e-6:
            raise ConfigurationError(
                f"residual: got cycles of {period:g} s for {trained.rate:g} states per second, "
                "allowed a whole number of cycles per state"
            )
        self._net, self._every, self._scale = net, round(every), trained.normalisation
        self._first = -phase % self._every
        self._middle, self._bound = 0.5 * (trained.low + trained.high), trained.bound
        self._half, self._minus_bound = 0.5 * (trained.high - trained.low), -trained.bound
        self._warm_up = round(WARM_UP_TIME * trained.rate)
        self._inputs, self._bodies = trained.inputs(), trained.bodies
        self._rate = trained.rate
        size, n = net.size, len(joints)
        self._last_dq, self._ddq = np.zeros(n), np.zeros(n)
        self._of_torque = 1.0 / self._scale.span[2 * n :]
        self._max = trained.bound[2 * n :] * self._scale.span[2 * n :]
        self._min = -self._max
        self._state = self._inputs.state
        self._q, self._dq, self._tau = np.split(self._state, 3)
        self._hat, self._off = np.zeros(size), np.zeros(size)
        self._hat_tau = self._hat[2 * n :]
        self._low, self._span = self._scale.low, self._scale.span
        self._inverse_span = 1.0 / self._span
        self.residual, self.of_bodies, self.confidence = np.zeros(size), np.zeros(n), 0.0
        self.reset()

    def reset(self) -> None:
        """Reset the network. The residual is 0 for 0.5 s, then ramps up."""
        self._net.reset()
        self._inputs.reset()
        self._sample_count, self._cycle = 0, self._first
        self.residual[:] = self.of_bodies[:] = 0.0
        self.confidence = 0.0

    def internal_state(self) -> tuple[object, ...]:
        """Return views of the internal state for :meth:`restore`; the next step changes them."""
        return (
            *self._net.states, self._last_dq, self.residual, self.of_bodies,
            self._inputs.internal_state(), self.confidence, self._sample_count, self._cycle,
        )  # fmt: skip

    def restore(self, internal_state: Any) -> None:
        *vectors, inputs, self.confidence, self._sample_count, self._cycle = internal_state
        self._inputs.restore(inputs)
        live: tuple[Any, ...]
        live = (*self._net.states, self._last_dq, self.residual, self.of_bodies)
        for own, saved in zip(live, vectors):
            own[:] = saved

    def step(self, q: Vector, dq: Vector, tau: Vector) -> Vector:
        """Process the simulated state of a cycle, and return the residual, (3 n,).

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, (n,) [rad/s].
            tau: Commanded torques, (n,) [Nm].
        """
        phase, self._cycle = self._cycle, (self._cycle + 1) % self._every
        if phase:
            return self.residual
        state = self._state
        self._q[:], self._dq[:], self._tau[:] = q, dq, tau
        multiply(subtract(state, self._low, state), self._inverse_span, state)
        if not isfinite(dot(state, state)):
            self.reset()
            return self.residual
        self._inputs.follow()
        result = self._hat
        result[:] = self._net.step(self._inputs.values)
        if self._bodies is not None:
            self._add_bodies(self._bodies, q, dq)
        if not isfinite(dot(result, result)):  # A huge state causes an overflow in the network.
            self.reset()
            return self.residual
        minimum(maximum(result, self._minus_bound, out=result), self._bound, out=result)
        multiply(result, self._span, self.residual)
        self.confidence = known = self._confidence_of(state)
        if known != 1.0:
            multiply(self.of_bodies, known, self.of_bodies)
            multiply(self.residual, known, self.residual)
        return self.residual

    def _add_bodies(self, bodies: BodyDifference, q: Vector, dq: Vector) -> None:
        last, ddq = self._last_dq, self._ddq
        multiply(subtract(dq, last if self._sample_count else dq, ddq), self._rate, ddq)
        last[:] = dq
        result = maximum(bodies.torques(q, dq, ddq), self._min, out=self.of_bodies)
        # The torques are bounded, because noise causes large accelerations.
        minimum(result, self._max, out=result)
        add(self._hat_tau, multiply(result, self._of_torque, ddq), self._hat_tau)

    def _confidence_of(self, state: Vector) -> float:
        if self._sample_count < 2 * self._warm_up:
            self._sample_count += 1
        off = subtract(state, self._middle, self._off)
        subtract(absolute(off, off), self._half, off)
        farthest = off[off.argmax()]
        inside = 1.0 if farthest <= 0.0 else max(0.0, 1.0 - float(farthest) / FADE_DISTANCE)
        return inside * max(0.0, self._sample_count / self._warm_up - 1.0)


EARLY_TOLERANCE, LATE_TOLERANCE = 0.25, 0.5
"""Maximum time by which a state may be early or late for a step of the network, as a fraction of
its period. The network skips earlier states, and warms up again after later ones."""


class CorrectedStates:
    """Correction of a simulator's time-stamped states by the residual of a network.

    The residual is constant between two steps of the network. During a warm-up it is zero, and
    then fades in. Missing states, and states older than the last one, restart the warm-up.

    Args:
        trained: Real-time network with its data.

    Attributes:
        gaps: Number of restarts of the warm-up.

    Raises:
        ConfigurationError: The network is of kind ``precise``, which also needs later states.

    Thread: one at a time.
    """

    def __init__(self, trained: TrainedResidual) -> None:
        self._period = 1.0 / trained.rate
        self._live = LiveResidual(trained, self._period, trained.robot, trained.joints)
        self._expected_time: float | None = None
        self._last = -np.inf
        self.gaps = 0

    @property
    def confidence(self) -> float:
        """Factor on the residual, 0 to 1; below 1 in the warm-up and outside the training data."""
        return self._live.confidence

    def correct(self, time: float, state: Vector) -> Vector:
        """Return a state with the residual added, (3 n,): positions, velocities, torques.

        Args:
            time: Time of the state [s].
            state: State of the simulator, (3 n,) [rad, rad/s, Nm].
        """
        period, deadline = self._period, self._expected_time
        if deadline is None or time < self._last or time > deadline + LATE_TOLERANCE * period:
            self.gaps += deadline is not None
            self._live.reset()
            deadline = time
        self._last = time
        if time >= deadline - EARLY_TOLERANCE * period:
            self._live.step(*np.split(state, 3))
            deadline += period
        self._expected_time = deadline
        corrected: Vector = state + self._live.residual
        return corrected


def indices_of(joints: Sequence[str], names: Sequence[str], prefix: str = "") -> list[int]:
    """Return the indices of the joints of an arm in a message.

    Args:
        joints: Joint names in the training data, such as ``joint1``.
        names: Joint names in the message, such as ``left_fr3_joint1``.
        prefix: Prefix of the joint names of the arm; may be empty if there is only one arm.

    Raises:
        ConfigurationError: No arm or more than one arm has all joints.
    """
    first, known = joints[0], set(names)
    begins = [
        name.removesuffix(first)
        for name in names
        if name.startswith(prefix) and (name == first or name.endswith(f"_{first}"))
    ]
    arms = [start for start in begins if known >= {start + joint for joint in joints}]
    if len(arms) != 1:
        raise ConfigurationError(
            f"{first} to {joints[-1]}: got {len(arms)} arms with all these joints among "
            f"{', '.join(names) or 'no names'}, allowed one. Select the arm with --prefix."
        )
    return [names.index(arms[0] + joint) for joint in joints]


def residual_of(
    arm: ArmDescription, use: str, file: str, period: float, phase: int = 0
) -> LiveResidual:
    """Load the network that a cell file gives for an arm.

    Args:
        arm: Description of the arm.
        use: Key in the section ``residual`` of the arm, for messages.
        file: Path of the trained network.
        period: Cycle time [s].
        phase: Number of the cycle in which the network first runs.

    Raises:
        ConfigurationError: If the file cannot be read, or is for another robot or cycle rate.
    """
    joints = tuple(joint.name for joint in arm.robot.joints)
    try:
        return LiveResidual(load_residual(Path(file)), period, arm.robot.name, joints, phase)
    except ConfigurationError as error:
        raise ConfigurationError(f"arms.{arm.name}.residual.{use}: {error}") from None
