# SPDX-License-Identifier: Apache-2.0
"""How much latency a law can stand at a posture, seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.dynamics.arm_model import ArmModel
from multipanda_py.state import ArmState, Matrix, Vector

SETTLE = 20
"""Cycles at rest after an activation, in which a law may finish what it spreads over some."""
LONGEST_SETTLE, STILL = 5000, 1e-5
"""Largest number of cycles until a law counts as settled; change of a torque per cycle below which
it is settled [Nm]."""
SPEED_STEP, ANGLE_STEP = 1e-4, 1e-5
"""Steps of the finite differences at rest [rad/s, rad]."""
ONE_SIDED = 0.02
"""Share of a damping by which it may differ with the way of a motion and count as one: a law that
remembers, such as hold, moves on a little between two steps."""
MOTIONS = 3
"""Slow motions, and their opposites, around which a law with one-sided parts is seen."""
SLOW, SPEED_LEAP, ANGLE_LEAP = 1e-3, 1e-6, 1e-6
"""Size of these [rad/s], and steps so small beside it that hardly any part is left or met; with
smaller steps of angle, a part that is met all the same would look like a stiff spring."""
LONGEST = 40
"""Delays are tried up to here [cycles]."""
STEADY = 1e-4
"""What an eigenvalue may be beyond 1: free directions and drifts slower than 10 s are no swing."""
SWING = 30.0
"""Frequency from which on a mode counts as a swing that latency may drive [rad/s]."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A law, with or without features, that can be put at any posture.

    Attributes:
        states: Live states of its arms.
        models: Their models.
        tau: Where :attr:`update` leaves the torques, per arm (n,).
        activate: Makes the law take over at the states of now.
        update: Computes the torques of one cycle.
    """

    states: Sequence[ArmState]
    models: Sequence[ArmModel]
    tau: Sequence[Vector]
    activate: Callable[[], object]
    update: Callable[[], None]

    @property
    def parts(self) -> list[slice]:
        """Where the joints of every arm are among those of all, N together."""
        ends = np.cumsum([state.n_joints for state in self.states]).tolist()
        return [slice(end - state.n_joints, end) for end, state in zip(ends, self.states)]

    def place(self, q: Vector, dq: Vector) -> None:
        """Put all arms at positions and velocities, (N,)."""
        for part, state, model in zip(self.parts, self.states, self.models):
            state.q[:], state.dq[:] = q[part], dq[part]
            model.update(state)

    def torque(self, q: Vector, dq: Vector) -> Vector:
        """Return the torques of the next cycle at positions and velocities, (N,) [Nm]."""
        self.place(q, dq)
        self.update()
        return np.concatenate(self.tau)


@dataclass(frozen=True, eq=False)
class Linearised:
    r"""A law around a posture: :math:`\delta\tau = -K \delta q - D \delta\dot q`, on an inertia.

    Attributes:
        mass: M, (N, N) [kg m^2].
        pieces: K and D, each (N, N) [Nm/rad, Nm s/rad]; more than one of a law with parts
            that act in one direction only, such as a stop in front of an obstacle.
    """

    mass: Matrix
    pieces: tuple[tuple[Matrix, Matrix], ...]

    @property
    def bandwidth(self) -> float:
        r"""Largest real eigenvalue of :math:`M^{-1} D`: of the velocity loop [1/s]."""
        return _bandwidth(self.mass, (d for _, d in self.pieces))

    def radius(self, delay: int, lag: float, inertia_scale: float, period: float = 1e-3) -> float:
        r"""Return the spectral radius of the loop of law and arm, cycle by cycle.

        .. math::
            u^+ = u + (1 - e^{-T / T_l}) (\tau_{-k} - u), \qquad
            \dot q^+ = \dot q + T (s M)^{-1} u^+, \qquad q^+ = q + T \dot q^+

        Args:
            delay: k, from a state to the torque it asks for [cycles].
            lag: :math:`T_l`, time constant of the torque [s].
            inertia_scale: s, the arm's inertia relative to the model's.
            period: T [s].
        """
        return float(np.abs(self._eigenvalues(delay, lag, inertia_scale, period)).max())

    def swing(self, delay: int, lag: float, inertia_scale: float, period: float = 1e-3) -> float:
        """Return the largest size of an eigenvalue of modes that swing, with 30 rad/s or more.

        Those are what latency drives. What pushes two round bodies apart also pushes them past
        one another, as on the top of a hill: that grows too, slowly, and without latency as with
        it. Arguments as in :meth:`radius`.
        """
        found = self._eigenvalues(delay, lag, inertia_scale, period)
        swings = np.abs(found[np.abs(np.angle(found)) >= SWING * period])
        return float(swings.max(initial=0.0))

    def _eigenvalues(
        self, delay: int, lag: float, inertia_scale: float, period: float
    ) -> NDArray[np.complex128]:
        n = len(self.mass)
        unit, nothing = np.eye(n), np.zeros((n, n))
        follow = 1.0 - float(np.exp(-period / lag)) if lag > 0.0 else 1.0
        push = period * np.linalg.inv(inertia_scale * self.mass)
        found = []
        for stiffness, damping in self.pieces:
            asked = np.hstack([-stiffness, -damping, *[nothing] * (1 + delay)])
            due = asked if delay == 0 else np.hstack([*[nothing] * (2 + delay), unit])
            torque = follow * due
            torque[:, 2 * n : 3 * n] += (1.0 - follow) * unit
            speed = push @ torque
            speed[:, n : 2 * n] += unit
            angle = period * speed
            angle[:, :n] += unit
            rows = [angle, speed, torque]
            if delay:
                rows.append(asked)
                shift = np.zeros((n * (delay - 1), n * (3 + delay)))
                shift[:, 3 * n : -n] = np.eye(n * (delay - 1))
                rows.append(shift)
            found.append(np.linalg.eigvals(np.vstack(rows)))
        return np.concatenate(found).astype(np.complex128)

    def delay_margin(self, lag: float, inertia_scale: float, period: float = 1e-3) -> int:
        """Return the longest delay, from 0 to 40 cycles, up to which the loop is stable.

        It is -1 if even without a delay it is not. Arguments as in :meth:`radius`.
        """
        stable, unstable = -1, LONGEST + 1
        while unstable - stable > 1:
            delay = (stable + unstable) // 2
            if self.radius(delay, lag, inertia_scale, period) <= 1.0 + STEADY:
                stable = delay
            else:
                unstable = delay
        return stable


def linearise(probe: Probe, q: Vector, settle: int = SETTLE) -> Linearised:
    """Activate a law at a posture, let it settle, and differentiate its torques.

    A law that brakes motions one way otherwise than the other is linear in pieces only. Each is
    seen around a slow motion that stays within it: joint by joint from rest, every column would
    be of another piece, and the whole of none.

    Args:
        probe: The law.
        q: Joint positions of all its arms, (N,) [rad].
        settle: Minimum number of cycles at rest before.
    """
    rest = np.zeros(len(q))
    pieces = [
        (_stiffness(probe, q, rest) if motion is None else _stiffness_around(probe, q, motion), d)
        for motion, d in _dampings(probe, q, settle)
    ]
    return Linearised(_mass(probe, q), tuple(pieces))


def bandwidth(probe: Probe, q: Vector, settle: int = SETTLE) -> float:
    """Return :attr:`Linearised.bandwidth` alone, at half the cost. Arguments as in `linearise`."""
    dampings = [d for _, d in _dampings(probe, q, settle)]
    return _bandwidth(_mass(probe, q), dampings)


def _bandwidth(mass: Matrix, dampings: Iterable[Matrix]) -> float:
    inverse = np.linalg.inv(mass)
    return max(float(np.linalg.eigvals(inverse @ d).real.max()) for d in dampings)


def _mass(probe: Probe, q: Vector) -> Matrix:
    """Return the inertia of all arms, (N, N) [kg m^2]."""
    probe.place(q, np.zeros(len(q)))
    mass = np.zeros((len(q), len(q)))
    for part, state in zip(probe.parts, probe.states):
        mass[part, part] = state.mass
    return mass


def _dampings(probe: Probe, q: Vector, settle: int) -> Iterator[tuple[Vector | None, Matrix]]:
    """Activate, and yield D at rest, or every motion (N,) [rad/s] with D around it."""
    n, rest = len(q), np.zeros(len(q))
    probe.place(q, rest)
    probe.activate()
    for _ in range(settle):
        here = probe.torque(q, rest)
    for _ in range(LONGEST_SETTLE):  # barriers that joints start in return over some time
        before, here = here, probe.torque(q, rest)
        if np.abs(here - before).max() < STILL:
            break
    dampings = np.zeros((2, n, n))
    for joint, step in enumerate(SPEED_STEP * np.eye(n)):
        dampings[0, :, joint] = (here - probe.torque(q, step)) / SPEED_STEP
        dampings[1, :, joint] = (probe.torque(q, -step) - here) / SPEED_STEP
    if np.ptp(dampings, axis=0).max() <= ONE_SIDED * np.abs(dampings).max():
        yield None, dampings.mean(axis=0)
        return
    ways = np.random.default_rng(0).standard_normal((MOTIONS, n))
    ways *= SLOW / np.linalg.norm(ways, axis=1, keepdims=True)
    for motion in (*ways, *-ways):
        yield motion, _damping_around(probe, q, motion)


def _damping_around(probe: Probe, q: Vector, motion: Vector) -> Matrix:
    """Return D around a motion, (N,) [rad/s]."""
    damping = np.zeros((len(q), len(q)))
    for joint, step in enumerate(SPEED_LEAP * np.eye(len(q))):
        damping[:, joint] = _fall(probe, (q, motion + step), (q, motion - step)) / SPEED_LEAP
    return damping


def _stiffness_around(probe: Probe, q: Vector, motion: Vector) -> Matrix:
    """Return K around a motion, (N,) [rad/s]."""
    stiffness = np.zeros((len(q), len(q)))
    for joint, step in enumerate(ANGLE_LEAP * np.eye(len(q))):
        stiffness[:, joint] = _fall(probe, (q + step, motion), (q - step, motion)) / ANGLE_LEAP
    return stiffness


def _fall(probe: Probe, ahead: tuple[Vector, Vector], back: tuple[Vector, Vector]) -> Vector:
    """Return half of the difference of the torques at two states, (N,) [Nm].

    Each state is evaluated twice, in an order in which a drift from cycle to cycle cancels out.
    """
    first = probe.torque(*ahead)
    torques = probe.torque(*back)
    torques = torques + probe.torque(*back)
    fall: Vector = 0.25 * (torques - first - probe.torque(*ahead))
    return fall


def _stiffness(probe: Probe, q: Vector, rest: Vector) -> Matrix:
    """Return K from steps at rest, (N, N) [Nm/rad]."""
    stiffness = np.zeros((len(q), len(q)))
    for joint, step in enumerate(ANGLE_STEP * np.eye(len(q))):
        ahead, back = (probe.torque(q + way, rest) for way in (step, -step))
        stiffness[:, joint] = (back - ahead) / (2.0 * ANGLE_STEP)
    return stiffness
