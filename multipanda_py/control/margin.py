# SPDX-License-Identifier: Apache-2.0
"""How much latency a law can stand at a posture, seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.dynamics.arm_model import ArmModel
from multipanda_py.state import ArmState, Matrix, Vector

SETTLE = 20
"""Cycles at rest after an activation, in which a law may finish what it spreads over some."""
SPEED_STEP, ANGLE_STEP = 1e-4, 1e-5
"""Steps of the finite differences [rad/s, rad]."""
LONGEST = 40
"""Delays are tried up to here [cycles]."""
STEADY = 1e-4
"""What an eigenvalue may be beyond 1: free directions and drifts slower than 10 s are no swing."""


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
    r"""A law around a posture at rest: :math:`\tau = -K \delta q - D \dot q`, on the inertia M.

    Attributes:
        mass: M, (N, N) [kg m^2].
        stiffness: K, (N, N) [Nm/rad].
        dampings: D as seen by small motions one way and the other, each (N, N) [Nm s/rad]:
            a brake may act on approach only.
    """

    mass: Matrix
    stiffness: Matrix
    dampings: tuple[Matrix, Matrix]

    @property
    def bandwidth(self) -> float:
        r"""Largest real eigenvalue of :math:`M^{-1} D`: of the velocity loop [1/s]."""
        inverse = np.linalg.inv(self.mass)
        return max(float(np.linalg.eigvals(inverse @ d).real.max()) for d in self.dampings)

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
        n = len(self.mass)
        unit, nothing = np.eye(n), np.zeros((n, n))
        follow = 1.0 - float(np.exp(-period / lag)) if lag > 0.0 else 1.0
        push = period * np.linalg.inv(inertia_scale * self.mass)
        largest = 0.0
        for damping in self.dampings:
            asked = np.hstack([-self.stiffness, -damping, *[nothing] * (1 + delay)])
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
            largest = max(largest, float(np.abs(np.linalg.eigvals(np.vstack(rows))).max()))
        return largest

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

    Args:
        probe: The law.
        q: Joint positions of all its arms, (N,) [rad].
        settle: Cycles at rest before.
    """
    rest = np.zeros(len(q))
    probe.place(q, rest)
    probe.activate()
    for _ in range(settle):
        here = probe.torque(q, rest)
    dampings = [np.zeros((len(q), len(q))) for _ in range(2)]
    stiffness = np.zeros((len(q), len(q)))
    for joint, step in enumerate(np.eye(len(q))):
        ahead, back = (probe.torque(q, way * SPEED_STEP * step) for way in (1.0, -1.0))
        dampings[0][:, joint] = (here - ahead) / SPEED_STEP
        dampings[1][:, joint] = (back - here) / SPEED_STEP
        ahead, back = (probe.torque(q + way * ANGLE_STEP * step, rest) for way in (1.0, -1.0))
        stiffness[:, joint] = (back - ahead) / (2.0 * ANGLE_STEP)
    probe.place(q, rest)
    mass = np.zeros((len(q), len(q)))
    for part, state in zip(probe.parts, probe.states):
        mass[part, part] = state.mass
    return Linearised(mass, stiffness, (dampings[0], dampings[1]))
