# SPDX-License-Identifier: Apache-2.0
"""States of any simulator, at any even rate, as the robot would have shown them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.network import RealTimeNetwork
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.state import Vector

_minimum, _maximum, _dot = np.minimum, np.maximum, np.dot
_multiply, _subtract, _absolute, _add = np.multiply, np.subtract, np.absolute, np.add
_isfinite = math.isfinite
FADE = 0.05
"""How far outside the training's range a state may be before nothing is predicted, normalised."""
WARM_UP = 0.5
"""How long the network looks on before what it predicts counts [s]."""


class LiveResidual:
    r"""Predict what a robot would show, or exert, besides what its simulation does.

    .. math::
        r = s\, w \cdot \mathrm{clip}(\hat r + \hat\tau_b, \pm \hat r_{max})
        (x_{high} - x_{low}), \qquad |\hat\tau_b| \le \hat r_{max}, \qquad
        w = \mathrm{clip}\left(1 - \frac{d}{0.05}, 0, 1\right)

    with torques :math:`\tau_b` of :class:`.BodyDifference`, and how far d the farthest element of
    the normalised state is outside the range of the training data. All this runs at the rate of
    its training, and is held between; for the first half second, and for as long again after a
    state that is not finite, it only looks on, and then comes in within as much time (s).

    Args:
        trained: A real-time network.
        period: Of the cycles that :meth:`step` is called in [s].
        robot: Model of the arm that it is used on.
        joints: Names of its joints.
        phase: In which cycle it first runs; networks of several arms need not share one.

    Attributes:
        residual: r of positions, velocities and torques, (3 n,) [rad, rad/s, Nm].
        of_bodies: What bodies make of its torques, if it was trained with some, (n,) [Nm], no
            more than a residual may be.
        confidence: s w, 0 to 1.

    Raises:
        ConfigurationError: If it is of another robot, is a precise network, or its rate and the
            period do not fit.

    Thread: one.
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
                f"residual: got a {trained.kind} network, allowed real_time: it needs the future"
            )
        if (robot, len(joints)) != (trained.robot, len(trained.joints)):
            raise ConfigurationError(
                f"residual: got {robot} with {len(joints)} joints, allowed {trained.robot} with "
                f"{len(trained.joints)}, which it was trained on"
            )
        if joints != trained.joints:
            raise ConfigurationError(
                f"residual: got joints {', '.join(joints)}, allowed {', '.join(trained.joints)}, "
                "which it was trained on"
            )
        every = 1.0 / (trained.rate * period)
        if every < 0.999 or abs(every - round(every)) > 1e-6:
            raise ConfigurationError(
                f"residual: got cycles of {period:g} s for {trained.rate:g} states a second, "
                "allowed a whole number of cycles for each"
            )
        self._net, self._every, self._scale = net, round(every), trained.normalisation
        self._first = -phase % self._every
        self._middle, self._bound = 0.5 * (trained.low + trained.high), trained.bound
        self._half, self._minus_bound = 0.5 * (trained.high - trained.low), -trained.bound
        self._warm_up = round(WARM_UP * trained.rate)
        self._inputs, self._bodies = trained.inputs(), trained.bodies
        self._rate = trained.rate
        size, n = net.size, len(joints)
        self._last_dq, self._ddq = np.zeros(n), np.zeros(n)
        self._of_torque = 1.0 / self._scale.span[2 * n :]
        self._most = trained.bound[2 * n :] * self._scale.span[2 * n :]
        self._least = -self._most
        self._state = self._inputs.state
        self._q, self._dq, self._tau = np.split(self._state, 3)
        self._hat, self._off = np.zeros(size), np.zeros(size)
        self._hat_tau = self._hat[2 * n :]
        self._low, self._span = self._scale.low, self._scale.span
        self._inverse_span = 1.0 / self._span
        self.residual, self.of_bodies, self.confidence = np.zeros(size), np.zeros(n), 0.0
        self.reset()

    def reset(self) -> None:
        """Forget everything and look on again."""
        self._net.reset()
        self._inputs.reset()
        self._seen, self._turn = 0, self._first
        self.residual[:] = self.of_bodies[:] = 0.0
        self.confidence = 0.0

    def memory(self) -> tuple[object, ...]:
        """Return all that it goes on from; changed by the next step."""
        return (
            *self._net.states, self._last_dq, self.residual, self.of_bodies,
            self._inputs.memory(), self.confidence, self._seen, self._turn,
        )  # fmt: skip

    def remember(self, memory: Any) -> None:
        """Go on from what :meth:`memory` returned."""
        *vectors, inputs, self.confidence, self._seen, self._turn = memory
        self._inputs.remember(inputs)
        live: tuple[Any, ...]
        live = (*self._net.states, self._last_dq, self.residual, self.of_bodies)
        for own, saved in zip(live, vectors):
            own[:] = saved

    def step(self, q: Vector, dq: Vector, tau: Vector) -> Vector:
        """Take a cycle's simulated, or rigid, state in, (n,) each; return the residual, (3 n,)."""
        turn, self._turn = self._turn, (self._turn + 1) % self._every
        if turn:
            return self.residual
        state = self._state
        self._q[:], self._dq[:], self._tau[:] = q, dq, tau
        _multiply(_subtract(state, self._low, state), self._inverse_span, state)
        if not _isfinite(_dot(state, state)):
            self.reset()
            return self.residual
        self._inputs.follow()
        found = self._hat
        found[:] = self._net.step(self._inputs.seen)
        if self._bodies is not None:
            self._add_bodies(self._bodies, q, dq)
        if not _isfinite(_dot(found, found)):  # sums of a huge state overflow in the network
            self.reset()
            return self.residual
        _minimum(_maximum(found, self._minus_bound, out=found), self._bound, out=found)
        _multiply(found, self._span, self.residual)
        self.confidence = known = self._known(state)
        if known != 1.0:
            _multiply(self.of_bodies, known, self.of_bodies)
            _multiply(self.residual, known, self.residual)
        return self.residual

    def _add_bodies(self, bodies: BodyDifference, q: Vector, dq: Vector) -> None:
        """Add the torques of bodies to a normalised residual."""
        last, ddq = self._last_dq, self._ddq
        _multiply(_subtract(dq, last if self._seen else dq, ddq), self._rate, ddq)
        last[:] = dq
        found = _maximum(bodies.torques(q, dq, ddq), self._least, out=self.of_bodies)
        _minimum(found, self._most, out=found)  # accelerations of noise are large
        _add(self._hat_tau, _multiply(found, self._of_torque, ddq), self._hat_tau)

    def _known(self, state: Vector) -> float:
        """Return s w of one more normalised state."""
        if self._seen < 2 * self._warm_up:
            self._seen += 1
        off = _subtract(state, self._middle, self._off)
        _subtract(_absolute(off, off), self._half, off)
        farthest = off[off.argmax()]
        inside = 1.0 if farthest <= 0.0 else max(0.0, 1.0 - float(farthest) / FADE)
        return inside * max(0.0, self._seen / self._warm_up - 1.0)


EARLY, LATE = 0.25, 0.5
"""Shares of a step by which a state may come before its instant, and after it."""


class CorrectedStates:
    """Add a residual to states that come with the time of their instant.

    The network steps at its own rate, and what it says is held between. States that come more
    seldom, out of order, or after a gap have it look on anew, as with every beginning.

    Args:
        trained: A real-time network.

    Attributes:
        gaps: How often it has begun anew.

    Raises:
        ConfigurationError: If it is a precise network.

    Thread: one.
    """

    def __init__(self, trained: TrainedResidual) -> None:
        self._period = 1.0 / trained.rate
        self._live = LiveResidual(trained, self._period, trained.robot, trained.joints)
        self._due: float | None = None
        self._last = -np.inf
        self.gaps = 0

    @property
    def confidence(self) -> float:
        """How far the state is inside what was trained, 0 to 1; 0 while the network looks on."""
        return self._live.confidence

    def correct(self, time: float, state: Vector) -> Vector:
        """Return a state with the residual added, (3 n,): positions, velocities, torques.

        Args:
            time: Of its instant [s].
            state: Of the simulator, (3 n,) [rad, rad/s, Nm].
        """
        period, due = self._period, self._due
        if due is None or time < self._last or time > due + LATE * period:
            self.gaps += due is not None
            self._live.reset()
            due = time
        self._last = time
        if time >= due - EARLY * period:
            self._live.step(*np.split(state, 3))
            due += period
        self._due = due
        corrected: Vector = state + self._live.residual
        return corrected


def places_of(joints: Sequence[str], names: Sequence[str], prefix: str = "") -> list[int]:
    """Return where joints are in a message, by names that are theirs behind one beginning.

    Args:
        joints: As in the training: ``joint1``.
        names: As in the message: ``left_fr3_joint1``; fingers and other arms may be among them.
        prefix: With which that beginning itself begins.

    Raises:
        ConfigurationError: If no arm has all of them, or several have.
    """
    first, given = joints[0], set(names)
    begins = [
        name.removesuffix(first)
        for name in names
        if name.startswith(prefix) and (name == first or name.endswith(f"_{first}"))
    ]
    arms = [begin for begin in begins if given >= {begin + joint for joint in joints}]
    if len(arms) != 1:
        raise ConfigurationError(
            f"{first} to {joints[-1]}: got {len(arms)} arms with all of them among "
            f"{', '.join(names) or 'no names'}, allowed one; --prefix tells arms apart"
        )
    return [names.index(arms[0] + joint) for joint in joints]
