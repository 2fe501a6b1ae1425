# SPDX-License-Identifier: Apache-2.0
"""The checks that every arm passes in every cycle, done for all arms at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.loop.arm import Arm
from multipanda_py.loop.row import columns
from multipanda_py.loop.safety import POSITION_MARGIN, VELOCITY_MARGIN, TorqueGuard

_FAR = 1e9
"""Beyond what joints that turn without end come to; infinity itself is no sound state [rad]."""
_absolute, _subtract, _less_equal = np.absolute, np.subtract, np.less_equal


class AllArms:
    r"""Check the states and bound the torques of all arms of a cell together.

    A state is sound if, for positions and speeds alike,

    .. math:: |x - m| \le h

    with the middle m and half the width h of what :class:`~multipanda_py.loop.safety.StateGuard`
    allows, which also is the one to say what is wrong with a state that is not; both are 0 where
    an arm has no joint. What the
    arms have of either is gathered from their records by one call, for arrays with gaps cost
    numpy three times as much, so both cost about as much as for one arm.

    Args:
        arms: All arms of the cell.
        records: Their records, (n,), as in a row.
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, arms: Sequence[Arm], records: NDArray[np.void], period: float) -> None:
        n = len(arms)
        rows = records.view(np.float64).reshape(n, -1)
        q, dq = columns(records.dtype, "q"), columns(records.dtype, "dq")
        room = q.stop - q.start  # an arm with fewer joints fills its beginning
        tau, wanted = columns(records.dtype, "tau"), columns(records.dtype, "tau_wanted")
        places = np.arange(rows.size).reshape(rows.shape)
        self._numbers = rows.reshape(-1)
        self._of_state = places[:, q.start : dq.stop].copy()  # q and dq lie side by side
        self._of_torque = np.array([places[:, tau], places[:, wanted]])
        self._tau = rows[:, tau]
        limits = [arm.state.limits for arm in arms]
        self._middle, self._half = np.zeros((n, 2 * room)), np.zeros((n, 2 * room))
        for middle, half, own in zip(self._middle, self._half, limits):
            joints = own.n_joints
            lower, upper = np.maximum(own.lower, -_FAR), np.minimum(own.upper, _FAR)
            middle[:joints] = 0.5 * (lower + upper)
            half[:joints] = 0.5 * (upper - lower) + POSITION_MARGIN
            half[room : room + joints] = VELOCITY_MARGIN * own.velocity
        self._off, self._within = np.zeros((n, 2 * room)), np.zeros((n, 2 * room), bool)
        self._all_within = np.ones_like(self._within).tobytes()
        self._guard = TorqueGuard(limits, period)
        self._torques = np.zeros((2, n, room))
        self._bounded, self._asked = self._torques
        self._heavy = [arm for arm in arms if arm.gravity is not None]
        self._on_springs = [(arm.springs, arm.state.tau) for arm in arms if arm.springs]
        self._pairs = [(arm, row[: arm.state.n_joints]) for arm, row in zip(arms, rows[:, wanted])]

    def are_sound(self) -> bool:
        """Return whether nothing is wrong with any measured state."""
        off = self._numbers.take(self._of_state, None, self._off, "clip")
        _absolute(_subtract(off, self._middle, off), off)
        within = _less_equal(off, self._half, self._within)  # never true of what is not a number
        return within.tobytes() == self._all_within

    def command(self) -> None:
        """Write this cycle's torques of all arms to their states."""
        for arm, wanted in self._pairs:
            wanted[:] = arm.wanted()
        for arm in self._heavy:
            arm.take_weight_on()
        self._numbers.take(self._of_torque, None, self._torques, "clip")
        self._guard.apply(self._asked, self._bounded)
        self._tau[:] = self._bounded
        for arm in self._heavy:
            arm.take_weight_off()
        for springs, tau in self._on_springs:
            springs.apply(tau)
