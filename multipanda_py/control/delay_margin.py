# SPDX-License-Identifier: Apache-2.0
"""Delay margin and bandwidth of a controllet, from a numerical linearisation of its torques."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.state import ArmState, Matrix, Vector

MIN_SETTLE_CYCLES = 20
"""Minimum number of cycles at rest after an activation, before the torques are differentiated."""
MAX_SETTLE_CYCLES, SETTLED_TORQUE_CHANGE = 5000, 1e-5
"""Maximum number of cycles to settle; torque change per cycle below which a controllet is settled
[Nm]."""
SPEED_STEP, ANGLE_STEP = 1e-4, 1e-5
"""Finite-difference steps of speed and angle at rest [rad/s, rad]."""
ONE_SIDED_TOLERANCE = 0.02
"""Relative difference between the damping of motion in positive and in negative direction, above
which a controllet is linearised around several slow motions. A controllet with memory, such as
hold, differs slightly between two steps."""
MOTION_COUNT = 3
"""Number of slow motions around which a direction-dependent controllet is linearised. Each motion
is also used with its sign reversed."""
SLOW_MOTION_SPEED, SPEED_LEAP, ANGLE_LEAP = 1e-3, 1e-6, 1e-6
"""Norm of the slow motions [rad/s], and finite-difference steps around them [rad/s, rad]. The
steps are small so that they hardly ever cross a boundary between two linear pieces of the
controllet. With smaller angle steps, a crossed boundary would look like a stiff spring."""
MAX_DELAY_CYCLES = 40
"""Longest delay that is examined [cycles]."""
RADIUS_TOLERANCE = 1e-4
"""Excess of the spectral radius over 1 that still counts as stable. Directions without a spring
have a radius of 1. Slow drifts, with time constants above 10 s, count as stable too."""
MIN_OSCILLATION_RATE = 30.0
"""Minimum frequency of a mode that counts as an oscillation driven by latency [rad/s]."""


@dataclass(frozen=True, eq=False)
class Probe:
    """Controllet, with or without features, whose torques can be evaluated at any arm state.

    Attributes:
        states: States of the arms, which ``activate`` and ``update`` read.
        models: Dynamic models of the arms.
        tau: Torques written by ``update``, one (n,) per arm [Nm].
        activate: Function that activates the controllet at the current states.
        update: Function that computes the torques of one cycle.
    """

    states: Sequence[ArmState]
    models: Sequence[ArmModel]
    tau: Sequence[Vector]
    activate: Callable[[], object]
    update: Callable[[], None]

    @property
    def parts(self) -> list[slice]:
        """Slice of each arm within the joint vector of all arms, (N,)."""
        ends = np.cumsum([state.n_joints for state in self.states]).tolist()
        return [slice(end - state.n_joints, end) for end, state in zip(ends, self.states)]

    def set_state(self, q: Vector, dq: Vector) -> None:
        """Set positions (N,) [rad] and velocities (N,) [rad/s] of all arms; update the models."""
        for part, state, model in zip(self.parts, self.states, self.models):
            state.q[:], state.dq[:] = q[part], dq[part]
            model.update(state)

    def torque(self, q: Vector, dq: Vector) -> Vector:
        """Return torques (N,) [Nm] of one cycle at positions q [rad] and velocities dq [rad/s]."""
        self.set_state(q, dq)
        self.update()
        return np.concatenate(self.tau)


@dataclass(frozen=True, eq=False)
class Linearised:
    """Linear approximation of a controllet around a configuration at rest.

    Equation::

        delta_tau = -K delta_q - D delta_dq

    - delta_tau, delta_q, delta_dq: Changes of torques, joint positions and velocities, (N,).
    - K: Joint stiffness, (N, N) [Nm/rad].
    - D: Joint damping, (N, N) [Nm s/rad].

    Attributes:
        mass: Inertia matrix M of all arms, (N, N) [kg m^2].
        pieces: Pairs of K and D; several if the damping depends on the direction of motion.
    """

    mass: Matrix
    pieces: tuple[tuple[Matrix, Matrix], ...]

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the velocity loop: maximum real part of the eigenvalues of M^-1 D [1/s]."""
        return _bandwidth(self.mass, (d for _, d in self.pieces))

    def radius(self, delay: int, lag: float, inertia_scale: float, period: float = 1e-3) -> float:
        """Return the spectral radius of the discrete closed loop of controllet and arm.

        Equations::

            tau[k]  = -K q[k] - D dq[k]
            u[k+1]  = u[k] + (1 - exp(-T / T_l)) (tau[k-d] - u[k])
            dq[k+1] = dq[k] + T (s M)^-1 u[k+1]
            q[k+1]  = q[k] + T dq[k+1]

        - tau, u: Torques of the controllet, and torques acting on the arm after the lag, (N,)
          [Nm].
        - q, dq: Deviations of the joint positions [rad] and velocities [rad/s], (N,).
        - M: Inertia matrix of the model, (N, N).
        - K, D: A pair of ``pieces``. The result is the maximum over all pairs.

        Args:
            delay: Delay d from a state to the torque computed for it [cycles].
            lag: Time constant T_l of the torque [s]; 0 means no lag.
            inertia_scale: Ratio s of the true inertia to that of the model.
            period: Cycle time T [s].
        """
        return float(np.abs(self._eigenvalues(delay, lag, inertia_scale, period)).max())

    def oscillation_radius(
        self, delay: int, lag: float, inertia_scale: float, period: float = 1e-3
    ) -> float:
        """Return the spectral radius of the closed loop for modes of 30 rad/s or more; 0 without.

        A value above 1 means a growing oscillation. See ``radius`` for the arguments.
        """
        eigenvalues = self._eigenvalues(delay, lag, inertia_scale, period)
        swings = np.abs(
            eigenvalues[np.abs(np.angle(eigenvalues)) >= MIN_OSCILLATION_RATE * period]
        )
        return float(swings.max(initial=0.0))

    def _eigenvalues(
        self, delay: int, lag: float, inertia_scale: float, period: float
    ) -> NDArray[np.complex128]:
        n = len(self.mass)
        unit, nothing = np.eye(n), np.zeros((n, n))
        follow = 1.0 - float(np.exp(-period / lag)) if lag > 0.0 else 1.0
        push = period * np.linalg.inv(inertia_scale * self.mass)
        eigenvalues = []
        for stiffness, damping in self.pieces:
            feedback = np.hstack([-stiffness, -damping, *[nothing] * (1 + delay)])
            deadline = feedback if delay == 0 else np.hstack([*[nothing] * (2 + delay), unit])
            torque = follow * deadline
            torque[:, 2 * n : 3 * n] += (1.0 - follow) * unit
            speed = push @ torque
            speed[:, n : 2 * n] += unit
            angle = period * speed
            angle[:, :n] += unit
            rows = [angle, speed, torque]
            if delay:
                rows.append(feedback)
                shift = np.zeros((n * (delay - 1), n * (3 + delay)))
                shift[:, 3 * n : -n] = np.eye(n * (delay - 1))
                rows.append(shift)
            eigenvalues.append(np.linalg.eigvals(np.vstack(rows)))
        return np.concatenate(eigenvalues).astype(np.complex128)

    def delay_margin(self, lag: float, inertia_scale: float, period: float = 1e-3) -> int:
        """Return the largest delay for which the closed loop is stable, from 0 to 40 [cycles].

        The result is -1 if the loop is unstable without delay. See ``radius`` for the arguments.
        """
        stable, unstable = -1, MAX_DELAY_CYCLES + 1
        while unstable - stable > 1:
            delay = (stable + unstable) // 2
            if self.radius(delay, lag, inertia_scale, period) <= 1.0 + RADIUS_TOLERANCE:
                stable = delay
            else:
                unstable = delay
        return stable


def linearise(probe: Probe, q: Vector, settle: int = MIN_SETTLE_CYCLES) -> Linearised:
    """Activate a controllet at a configuration, let it settle, and differentiate its torques.

    If the damping depends on the direction of motion, the result has a pair of K and D for each of
    several slow motions.

    Args:
        probe: Controllet to linearise.
        q: Joint positions of all arms, (N,) [rad].
        settle: Minimum number of cycles at rest before the differentiation.
    """
    rest = np.zeros(len(q))
    pieces = [
        (_stiffness(probe, q, rest) if motion is None else _stiffness_around(probe, q, motion), d)
        for motion, d in _damping_per_motion(probe, q, settle)
    ]
    return Linearised(_mass(probe, q), tuple(pieces))


def bandwidth(probe: Probe, q: Vector, settle: int = MIN_SETTLE_CYCLES) -> float:
    """Return the bandwidth of a controllet as in ``Linearised.bandwidth`` [1/s].

    Args:
        probe: Controllet to linearise.
        q: Joint positions of all arms, (N,) [rad].
        settle: Minimum number of cycles at rest before the differentiation.
    """
    dampings = [d for _, d in _damping_per_motion(probe, q, settle)]
    return _bandwidth(_mass(probe, q), dampings)


def _bandwidth(mass: Matrix, dampings: Iterable[Matrix]) -> float:
    inverse = np.linalg.inv(mass)
    return max(float(np.linalg.eigvals(inverse @ d).real.max()) for d in dampings)


def _mass(probe: Probe, q: Vector) -> Matrix:
    probe.set_state(q, np.zeros(len(q)))
    mass = np.zeros((len(q), len(q)))
    for part, state in zip(probe.parts, probe.states):
        mass[part, part] = state.mass_matrix
    return mass


def _damping_per_motion(
    probe: Probe, q: Vector, settle: int
) -> Iterator[tuple[Vector | None, Matrix]]:
    n, rest = len(q), np.zeros(len(q))
    probe.set_state(q, rest)
    probe.activate()
    for _ in range(settle):
        here = probe.torque(q, rest)
    # Wait until the torques are constant. The barrier torque of a joint that starts near its
    # limit rises over many cycles.
    for _ in range(MAX_SETTLE_CYCLES):
        before, here = here, probe.torque(q, rest)
        if np.abs(here - before).max() < SETTLED_TORQUE_CHANGE:
            break
    dampings = np.zeros((2, n, n))
    for joint, step in enumerate(SPEED_STEP * np.eye(n)):
        dampings[0, :, joint] = (here - probe.torque(q, step)) / SPEED_STEP
        dampings[1, :, joint] = (probe.torque(q, -step) - here) / SPEED_STEP
    if np.ptp(dampings, axis=0).max() <= ONE_SIDED_TOLERANCE * np.abs(dampings).max():
        # The damping is equal for both directions of motion.
        yield None, dampings.mean(axis=0)
        return
    paths = np.random.default_rng(0).standard_normal((MOTION_COUNT, n))
    paths *= SLOW_MOTION_SPEED / np.linalg.norm(paths, axis=1, keepdims=True)
    for motion in (*paths, *-paths):
        yield motion, _damping_around(probe, q, motion)


def _damping_around(probe: Probe, q: Vector, motion: Vector) -> Matrix:
    damping = np.zeros((len(q), len(q)))
    for joint, step in enumerate(SPEED_LEAP * np.eye(len(q))):
        damping[:, joint] = (
            _half_difference(probe, (q, motion + step), (q, motion - step)) / SPEED_LEAP
        )
    return damping


def _stiffness_around(probe: Probe, q: Vector, motion: Vector) -> Matrix:
    stiffness = np.zeros((len(q), len(q)))
    for joint, step in enumerate(ANGLE_LEAP * np.eye(len(q))):
        stiffness[:, joint] = (
            _half_difference(probe, (q + step, motion), (q - step, motion)) / ANGLE_LEAP
        )
    return stiffness


def _half_difference(
    probe: Probe, ahead: tuple[Vector, Vector], back: tuple[Vector, Vector]
) -> Vector:
    # Evaluate each state twice, in an order that cancels a linear drift from cycle to cycle.
    first = probe.torque(*ahead)
    torques = probe.torque(*back)
    torques = torques + probe.torque(*back)
    fall: Vector = 0.25 * (torques - first - probe.torque(*ahead))
    return fall


def _stiffness(probe: Probe, q: Vector, rest: Vector) -> Matrix:
    stiffness = np.zeros((len(q), len(q)))
    for joint, step in enumerate(ANGLE_STEP * np.eye(len(q))):
        ahead, back = (probe.torque(q + displacement, rest) for displacement in (step, -step))
        stiffness[:, joint] = (back - ahead) / (2.0 * ANGLE_STEP)
    return stiffness
