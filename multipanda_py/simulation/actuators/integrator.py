# SPDX-License-Identifier: Apache-2.0
"""In how many steps springs and motors go through one step of the world."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.simulation.actuators.equations import LINK, Equations
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector

_STAGES = (0.5, 0.5, 1.0)
_WEIGHTS = np.array([1.0, 2.0, 2.0, 1.0]) / 6.0


class Flow:
    r"""Integrate :class:`.Equations` by the classical fourth-order Runge-Kutta method.

    Non-smooth parts: friction slips against the memory of the step's beginning and forgets at its
    end (the play operator is exact while a motor does not turn round within a step); a motor that
    is at a stop or at its largest velocity, and is driven further, is held there from stage to
    stage; what crosses a limit within a step is put back to it at the end.

    Args:
        springs: Between motors and links.
        equations: Of everything else.

    Attributes:
        x: Positions of links and of both motors, (3, n) [rad]; a view of the state.
        v: Their velocities, (3, n) [rad/s].
        impulse: Of torques on links since it was last set to zero, (n,) [Nm s].
        state: All of these, (7n,).
        loads: Torques of springs on links, and loads of both motors, (3, n) [Nm]; as of the last
            time that they were computed.
        torques: Of controllers on links and motors, then friction, (5, n) [Nm]; likewise.
        change: Of the state in the last step, (7n,).

    Thread: control.
    """

    def __init__(self, springs: JointSprings, equations: Equations) -> None:
        n = springs.n_joints
        self._springs, self._equations = springs, equations
        self.state = np.zeros(7 * n)
        self.x, self.v = self.state[: 3 * n].reshape(3, n), self.state[3 * n : 6 * n].reshape(3, n)
        self.impulse = self.state[6 * n :]
        self._motion = self.state[: 6 * n]
        now = np.zeros(2 + 14 * n)  # 1, x, v, loads of springs, torques and friction, 1
        now[0] = now[-1] = 1.0
        self._seen, self._stage_motion = now[: 6 * n + 1], now[1 : 6 * n + 1]
        self._stage_x = now[1 : 3 * n + 1].reshape(3, n)
        self._q, self._theta_1, self._theta_2 = self._stage_x
        self.loads = now[6 * n + 1 : 9 * n + 1].reshape(3, n)
        self._causes, self._bounded = now[3 * n + 1 :], now[9 * n + 1 : -1]
        self.torques: Matrix = self._bounded.reshape(5, n)
        self._raw, self._slipped = np.zeros(5 * n), np.zeros(2 * n)
        self._memory = equations.before[3 * n :, 0]
        self._before, self._after = equations.before, equations.after  # written to in place
        self._low, self._high = equations.low, equations.high
        self._least, self._most = equations.least, equations.most
        self._raw_friction, self._friction = self._raw[3 * n :], self._bounded[3 * n :]
        self._rates = np.zeros((4, 7 * n))
        self._rate_rows = list(self._rates)
        self._motion_rates = [row[: 6 * n] for row in self._rates]
        self._motor_rates = list(self._rates[:, 4 * n : 6 * n])
        self._step, self.change = np.zeros(6 * n), np.zeros(7 * n)
        self._kept, self._over = np.zeros(6 * n), np.zeros(6 * n)
        self._all_free = np.ones(2 * n)
        self._free: NDArray[np.float64] | None = None
        self._ways, self._seen_limits = np.zeros(2 * n), b""
        self._left_free, self._is_at_limits = self._all_free, False
        self._n = n
        # Where motors are among links and motors: in motions, changes, and what crosses a limit.
        self._theta, self._speed = self._of_motors(self._motion)
        self._past_stop, self._too_fast = self._of_motors(self._over)
        self._way, self._fastest = self.change[n : 3 * n], self._most[4 * n :]
        self._are_at = np.zeros((2, 6 * n), dtype=bool)
        self._is_top, self._is_bottom = self._are_at
        self._tops, self._bottoms = map(self._of_motors, (self._is_top, self._is_bottom))

    @property
    def rates(self) -> Vector:
        """Of the state, as :meth:`begin` has found them, (7n,)."""
        return self._rate_rows[0]

    def look(self) -> Vector:
        """Compute loads, torques and friction at the state of now, and return its rates, (7n,)."""
        self._stage_motion[:] = self._motion
        self._evaluate(3)
        return self._rate_rows[3]

    def look_for_limits(self) -> None:
        """Find out anew which motors are at limits; for states that were put together."""
        self._free = self._all_free

    def begin(self) -> None:
        """Compute the rates at the state of now, and let friction slip."""
        self._stage_motion[:] = self._motion
        self._evaluate(0)
        np.subtract(self._friction, self._raw_friction, out=self._slipped)
        np.add(self._memory, self._slipped, out=self._memory)
        if self._free is not None:
            self._hold_at_limits()

    def advance(self, duration: float, substeps: int) -> None:
        """Go on for a while.

        Args:
            duration: For how long [s].
            substeps: In how many steps.
        """
        dt, equations = duration / substeps, self._equations
        weights, shares = dt * _WEIGHTS, [np.array(dt * share) for share in _STAGES]
        step, change, rates = self._step, self.change, self._motion_rates
        for _ in range(substeps):
            self.begin()
            for stage, share in enumerate(shares):
                np.multiply(rates[stage], share, out=step)
                np.add(self._motion, step, out=self._stage_motion)
                self._evaluate(stage + 1)
                if self._free is not None:
                    row = self._motor_rates[stage + 1]
                    row *= self._free
            weights.dot(self._rates, out=change)
            if equations.integrates:
                equations.integrate(dt, self.x + 0.5 * change[: 3 * self._n].reshape(3, -1))
            self.state += change
            self.keep_limits(dt)

    def keep_limits(self, dt: float) -> None:
        """Put motors back to their stops, and to their largest velocities.

        Args:
            dt: Length of the step that has led here [s].
        """
        kept, over = self._kept, self._over
        np.minimum(self._motion, self._most, out=kept)
        np.maximum(kept, self._least, out=kept)
        np.subtract(self._motion, kept, out=over)
        if not over.dot(over):
            return
        self._motion[:] = kept
        past, most = self._past_stop, dt * self._fastest
        # No further in the step than at the largest velocity.
        excess = self._way - np.minimum(np.maximum(self._way, -most), most)
        excess *= self._too_fast != 0.0
        if past.dot(past):
            self._speed *= past * self._speed <= 0.0
            excess *= past == 0.0
        self._theta -= excess
        self._free = self._all_free

    def _evaluate(self, stage: int) -> None:
        raw, bounded = self._raw, self._bounded
        self._before.dot(self._seen, out=raw)
        np.minimum(raw, self._high, out=bounded)
        np.maximum(bounded, self._low, out=bounded)
        self._springs.load(self._q, self._theta_1, self._theta_2, self.loads)
        self._after.dot(self._causes, out=self._rate_rows[stage])

    def _hold_at_limits(self) -> None:
        """Take accelerations beyond limits from motors that are at them."""
        rates = self._motor_rates[0]
        np.greater_equal(self._motion, self._most, out=self._is_top)
        np.less_equal(self._motion, self._least, out=self._is_bottom)
        np.sign(rates, out=self._ways)
        seen = self._are_at.tobytes() + self._ways.tobytes()
        if seen != self._seen_limits:  # mostly, what was held in the last step still is
            up, down = self._tops[0] | self._tops[1], self._bottoms[0] | self._bottoms[1]
            held = (up & (rates > 0.0)) | (down & (rates < 0.0))
            self._left_free, self._is_at_limits = 1.0 - held, bool((up | down).any())
            self._seen_limits = seen
        rates *= self._left_free
        self._free = self._left_free if self._is_at_limits else None

    def _of_motors(self, motion: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what of positions and velocities, (6n,), is the motors', (2n,) each."""
        n = self._n
        return motion[n : 3 * n], motion[4 * n :]


SLOW = 0.1
"""Time constant of what counts as slow [s]: long against vibrations, short against rest."""
HELD = 0.02
"""Time constant of what contacts and friction hold [s]."""


@dataclass(eq=False)
class SlowPart:
    r"""Low-passed accelerations of links, (n,) each [rad/s^2].

    Contacts and friction of joints are known after a step only, by what they did to velocities;
    with what they have done lately a link that leans on something stands still between its steps,
    too, where its spring would else begin to move it.

    Attributes:
        acceleration: By everything but springs, contacts and friction.
        held: By contacts and friction.
        last: All of the former in the last step; not a number if there was none.

    Thread: control.
    """

    acceleration: Vector
    held: Vector
    last: Vector

    @classmethod
    def none(cls, n_joints: int) -> SlowPart:
        """Return that of joints that did not move yet."""
        return cls(np.zeros(n_joints), np.zeros(n_joints), np.full(n_joints, np.nan))

    def copied(self) -> tuple[Vector, ...]:
        """Return copies of all."""
        return self.acceleration.copy(), self.held.copy(), self.last.copy()

    def update(
        self, dq: Vector, expected: Vector, rest: Vector, inner: Vector, duration: float
    ) -> None:
        """Take the beginning of a step.

        Args:
            dq: Velocities, with the second half of the last kick, (n,) [rad/s].
            expected: Without that half, and if nothing held the links, (n,) [rad/s].
            rest: Accelerations by everything but springs, contacts and friction, (n,) [rad/s^2].
            inner: Where there are kicks, (n,).
            duration: Of the step [s].
        """
        if math.isnan(self.last[0]):
            self.acceleration[:] = rest
        else:
            kick = 0.5 * duration * inner * (rest - self.last)
            found = (dq - expected - kick) / duration + self.held
            self.held += -math.expm1(-duration / HELD) * (found - self.held)
            self.acceleration += -math.expm1(-duration / SLOW) * (rest - self.acceleration)
        self.last[:] = rest


SHARE = 0.08
"""Largest substep by the inverse of the local frequency of springs: the fourth order then loses
less than 0.1 % of a vibration's energy in 10 s, up to 200 Hz."""
FAST_SHARE = 1.0
"""The same of controllers, friction and dampers, whose motions end soon."""
HELD_SHARE = 1.0
"""Up to this springs are stable, though no longer exact; what is stiffer is softened."""
MOST = 50
"""Substeps in a step, if nobody says."""


class Plan(NamedTuple):
    """What a step is divided into.

    Attributes:
        substeps: Their number.
        softness: What springs are scaled by; below 1 where so many cannot hold them.
        ease: What dampers between motors and links, and controllers of links, are scaled by;
            likewise.
        complaint: What cannot be held, in words, or nothing.
    """

    substeps: int
    softness: float
    ease: float
    complaint: str


def choose_substeps(
    springs: JointSprings,
    equations: Equations,
    x: Matrix,
    compliance: Matrix,
    damping: Vector,
    own_damping: Vector,
    duration: float,
    most: int,
) -> Plan:
    r"""Return how a step is divided, by the local frequency.

    With the links' stiffness :math:`\sigma` and the links' inverse inertia C,

    .. math:: \omega^2 \le \max_j \sum_k |C_{jk}|\, \sigma_k + \max_j \sigma_j / J_j

    since no eigenvalue of :math:`C \Sigma` is above the largest sum of a row, and what motors add
    to it is at most their own. A motor that moves a pivot s has a stiffness of its own and one
    that mixes both: with its mass m,

    .. math::
        \omega^2 \le \max\left(\omega^2, \max_j \frac{1}{m_j}
        \left|\frac{\partial F_j}{\partial s_j}\right|\right) + \max_j
        \left|\frac{\partial \tau_j}{\partial s_j}\right|
        \sqrt{\frac{1}{m_j} \left(\sum_k |C_{jk}| + \frac{1}{J_j}\right)}

    Args:
        springs: Between motors and links.
        equations: Of motors and controllers.
        x: Positions of links and motors, (3, n) [rad].
        compliance: C, (n, n) [1/(kg m^2)].
        damping: Of the links' own joints, (n,) [Nm s/rad].
        own_damping: Between motors and links, (n,) [Nm s/rad].
        duration: Of the step [s].
        most: Largest number of substeps.

    Raises:
        BackendError: If the frequency is not finite.
    """
    sigma = np.abs(springs.largest_stiffness(x[0], x[1:])) * equations.elastic
    sigma += equations.gains[0, LINK]
    reach = np.abs(compliance)
    moving = (sigma * equations.lightness).ravel().tolist()
    square = max(reach.dot(sigma).tolist()) + max(moving)
    if springs.moves_pivots and equations.lightness[1].any():
        square = _with_pivots(square, springs, equations, x, reach)
    omega = math.sqrt(square)
    held = HELD_SHARE * most / duration
    eased = own_damping * equations.elastic
    drag = eased + equations.gains[2, LINK]
    dampers = max((reach.dot(drag) + eased * equations.lightness).ravel().tolist())
    fastest = max(equations.fastest, dampers, *reach.dot(damping).tolist())
    wanted = duration * max(omega / SHARE, fastest / FAST_SHARE)
    if not math.isfinite(wanted):
        raise BackendError(
            f"springs: got stiffness {sigma.tolist()!r:.200} Nm/rad at {x.tolist()!r:.200} rad, "
            "allowed what is finite"
        )
    count = max(1, math.ceil(wanted))
    complaint, softness, ease = "", 1.0, min(1.0, held / max(dampers, held))
    if omega * duration > math.pi:
        complaint = (
            f"springs vibrate at {omega / math.tau:.0f} Hz: a step of {1e3 * duration:.3g} ms is "
            "more than half of that period, and may resonate; allowed up to "
            f"{1e3 * math.pi / omega:.3g} ms"
        )
    if count > most:
        count = most
    if duration * omega / SHARE > most:
        complaint = (
            f"springs of {sigma.max():.4g} Nm/rad vibrate at {omega / math.tau:.0f} Hz: {most} "
            f"substeps in {1e3 * duration:.3g} ms are exact up to "
            f"{SHARE / HELD_SHARE * held / math.tau:.0f} Hz"
        )
        if omega > held:
            softness = (held / omega) ** 2
            complaint += f"; they are softened by {softness:.2g}"
    elif max(fastest, equations.wanted) > held:
        complaint = (
            f"motors, controllers and dampers respond at {max(fastest, equations.wanted):.4g} "
            f"1/s: {most} substeps in {1e3 * duration:.3g} ms hold up to {held:.4g} 1/s; motors "
            "are taken as heavier and dampers as weaker, as far as that needs"
        )
    return Plan(count, softness, ease, complaint)


def _with_pivots(
    square: float, springs: JointSprings, equations: Equations, x: Matrix, reach: Matrix
) -> float:
    """Return the square of the frequency with what motors of pivots add to it."""
    first, second = equations.lightness
    own, mixed = springs.pivot_slopes(x[0], x[1:])
    cross = np.abs(mixed) * np.sqrt(second * (reach.sum(axis=1) + first))
    return float(max(square, *(np.abs(own) * second).tolist()) + max(cross.tolist()))
