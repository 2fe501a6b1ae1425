# SPDX-License-Identifier: Apache-2.0
"""Links and motors under springs, for a short time in which everything else stands still."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.compliance.equations import Equations
from multipanda_py.compliance.springs import JointSprings
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
