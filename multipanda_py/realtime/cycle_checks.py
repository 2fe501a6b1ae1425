# SPDX-License-Identifier: Apache-2.0
"""Silence: of the process that owns the cell, and of those that stream targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.cycle_record import columns
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.safety import POSITION_MARGIN, VELOCITY_MARGIN, TorqueGuard
from multipanda_py.realtime.shared_memory import Mailbox, Word
from multipanda_py.state import ArmState

_FAR = 1e9
"""Beyond what joints that turn without end come to; infinity itself is no sound state [rad]."""
_absolute, _subtract, _less_equal = np.absolute, np.subtract, np.less_equal


class AllArms:
    r"""Check the states and bound the torques of all arms of a cell together.

    A state is sound if, for positions and speeds alike,

    .. math:: |x - m| \le h

    with the middle m and half the width h of what :class:`.StateGuard`
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


class Turns:
    r"""Keep the positions of an arm's endless joints from jumping.

    .. math:: q \leftarrow q + 2 \pi\, \mathrm{round}((q_{k-1} - q) / 2 \pi)

    so that errors of targets, springs and trajectories are differences, whether a robot counts its
    turns or reports angles of one circle. A position that is none stays as it is.

    Args:
        state: Of an arm with such joints, whose positions a backend writes.

    Thread: control.
    """

    def __init__(self, state: ArmState) -> None:
        self._q = state.q
        self._joints = np.flatnonzero(state.limits.endless)
        self._places: list[int] = self._joints.tolist()
        self._last = [math.nan] * len(self._places)  # the first position counts as it is

    def begin(self) -> None:
        """Count from where the joints are said to be now."""
        self._last = self._q[self._joints].tolist()

    def count(self) -> None:
        """Add the turns that the joints have made since the last call."""
        for place, (joint, last) in enumerate(zip(self._places, self._last)):
            q = float(self._q[joint])
            if abs(q - last) > math.pi and math.isfinite(q):
                q += math.tau * round((last - q) / math.tau)
                self._q[joint] = q
            if math.isfinite(q):
                self._last[place] = q


START_PATIENCE = 20.0
"""How long an owner may be busy with its own start before it shows the first time that it is
alive [s]. Until then nobody can ask anything of its arms; one that dies is seen at once."""
_HEARTBEAT = int(Word.CLIENT_HEARTBEAT)  # asked for in every cycle


class Silence:
    """Hold when the owner has gone silent, or a stream of targets has paused.

    Args:
        ownership: Who owns which arm.
        mailbox: With the owner's heartbeat.
        timeout_ns: Silence of the owner after which all arms hold; 0 is never.

    Attributes:
        timeout_ns: Maximum age of the owner's heartbeat; 0 is any.

    Thread: control.
    """

    def __init__(self, ownership: Ownership, mailbox: Mailbox, timeout_ns: int) -> None:
        self._owners, self._words, self.timeout_ns = ownership, mailbox.words, timeout_ns
        self._is_silent, self._first_ns = False, 0
        self._start_ns = max(timeout_ns, round(START_PATIENCE * 1e9))

    def look(self, now_ns: int) -> None:
        """Look at both; a silence is reported once."""
        owners = self._owners
        if self.timeout_ns:
            self._first_ns = self._first_ns or now_ns
            beat = self._words[_HEARTBEAT]
            silence = now_ns - max(beat, self._first_ns)  # not before the loop ran itself
            is_silent = silence > (self.timeout_ns if beat else self._start_ns)
            if is_silent and not self._is_silent:
                text = f"the owning process has been silent for {silence / 1e9:.2f} s"
                owners.hold_all(Event.CLIENT_SILENT, f"{text}; all arms hold", now_ns)
            self._is_silent = is_silent
        for instance in owners.active:
            if instance.is_stale(now_ns):
                owners.attempt(instance, partial(owners.restart, instance, now_ns), now_ns)
                text = "targets have stopped; holding the measured state"
                owners.report(Event.TARGET_STALE, instance, text, now_ns)
