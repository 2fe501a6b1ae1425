# SPDX-License-Identifier: Apache-2.0
"""Checks in every cycle: states and torques of all arms, joint unwrapping, watchdogs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy import absolute, less_equal, subtract
from numpy.typing import NDArray

from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.cycle_record import columns
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.torque_guard import POSITION_MARGIN, VELOCITY_MARGIN, TorqueGuard
from multipanda_py.state import ArmState

_UNLIMITED_POSITION = 1e9
"""Bound for joints without position limits; an infinite position is not a valid state [rad]."""


class BatchSafety:
    r"""Check of measured states and limiter of torques, for all arms at once to save time.

    A state is valid if all positions and velocities satisfy

    .. math:: |x - m| \le h

    with the measured value x, and the middle m and half width h of the range that
    :class:`.StateGuard` allows.

    Args:
        arms: All arms of the cell.
        records: Fields of all arms in the cycle record, a structured array (arms,).
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, arms: Sequence[Arm], records: NDArray[np.void], period: float) -> None:
        n = len(arms)
        rows = records.view(np.float64).reshape(n, -1)
        q, dq = columns(records.dtype, "q"), columns(records.dtype, "dq")
        width = q.stop - q.start  # Size of the largest arm; smaller arms use the first elements.
        tau, desired = columns(records.dtype, "tau"), columns(records.dtype, "tau_desired")
        positions = np.arange(rows.size).reshape(rows.shape)
        self._numbers = rows.reshape(-1)
        # One call gathers these values of all arms: numpy is three times slower with strided
        # arrays. One range of columns covers q and dq, which are adjacent.
        self._of_state = positions[:, q.start : dq.stop].copy()
        self._of_torque = np.array([positions[:, tau], positions[:, desired]])
        self._tau = rows[:, tau]
        limits = [arm.state.limits for arm in arms]
        # Missing joints of smaller arms have a value, middle and half width of 0.
        self._middle, self._half = np.zeros((n, 2 * width)), np.zeros((n, 2 * width))
        for middle, half, own in zip(self._middle, self._half, limits):
            joints = own.n_joints
            lower, upper = (
                np.maximum(own.lower, -_UNLIMITED_POSITION),
                np.minimum(own.upper, _UNLIMITED_POSITION),
            )
            middle[:joints] = 0.5 * (lower + upper)
            half[:joints] = 0.5 * (upper - lower) + POSITION_MARGIN
            half[width : width + joints] = VELOCITY_MARGIN * own.velocity
        self._off, self._within = np.zeros((n, 2 * width)), np.zeros((n, 2 * width), bool)
        self._all_within = np.ones_like(self._within).tobytes()
        self._guard = TorqueGuard(limits, period)
        self._torques = np.zeros((2, n, width))
        self._bounded, self._desired_torque = self._torques
        self._heavy = [arm for arm in arms if arm.gravity is not None]
        self._on_springs = [(arm.springs, arm.state.tau) for arm in arms if arm.springs]
        self._pairs = [
            (arm, row[: arm.state.n_joints]) for arm, row in zip(arms, rows[:, desired])
        ]

    def check_states(self) -> bool:
        """Return True if all measured states are valid."""
        off = self._numbers.take(self._of_state, None, self._off, "clip")
        absolute(subtract(off, self._middle, off), off)
        within = less_equal(off, self._half, self._within)  # The comparison is False for NaN.
        return within.tobytes() == self._all_within

    def command(self) -> None:
        """Write the torques of this cycle to the states of all arms, limited in value and rate."""
        for arm, desired in self._pairs:
            desired[:] = arm.desired_torque()
        for arm in self._heavy:
            arm.add_gravity()
        self._numbers.take(self._of_torque, None, self._torques, "clip")
        self._guard.apply(self._desired_torque, self._bounded)
        self._tau[:] = self._bounded
        for arm in self._heavy:
            arm.subtract_gravity()
        for springs, tau in self._on_springs:
            springs.apply(tau)


class JointUnwrap:
    r"""Joint unwrapping: keep the positions of continuous joints free of jumps.

    .. math:: q \leftarrow q + 2 \pi\, \mathrm{round}((q_{k-1} - q) / 2 \pi)

    with the measured position q and the unwrapped position :math:`q_{k-1}` of the last cycle. A
    position that is not finite stays unchanged.

    Args:
        state: State of an arm with continuous joints; a backend writes its positions.

    Thread: control.
    """

    def __init__(self, state: ArmState) -> None:
        self._q = state.q
        self._joints = np.flatnonzero(state.limits.endless)
        self._indices: list[int] = self._joints.tolist()
        self._last = [math.nan] * len(self._indices)  # NaN leaves the first position unchanged.

    def reset(self) -> None:
        """Restart the unwrapping from the current positions, after the arm was reset."""
        self._last = self._q[self._joints].tolist()

    def unwrap(self) -> None:
        """Unwrap the positions of this cycle in place."""
        for index, (joint, last) in enumerate(zip(self._indices, self._last)):
            q = float(self._q[joint])
            if abs(q - last) > math.pi and math.isfinite(q):
                q += math.tau * round((last - q) / math.tau)
                self._q[joint] = q
            if math.isfinite(q):
                self._last[index] = q


START_TIMEOUT = 20.0
"""Timeout of the first heartbeat of an owning process, which may be busy with its own start [s].
Before the first heartbeat, no client can send requests. The end of the process is detected at
once."""
_HEARTBEAT = int(SharedFlag.CLIENT_HEARTBEAT)  # Plain integer: faster than an enum member.


class Watchdog:
    """Watchdog of the process that owns the cell, and of streamed targets.

    All arms hold if the heartbeat of the process is too old. If the last target of a controllet is
    older than its ``target_timeout``, the controllet restarts from the measured state.

    Args:
        ownership: Assignment of arms to controllets.
        mailbox: Shared memory with the heartbeat of the owning process.
        timeout_ns: Maximum age of the heartbeat [ns]; 0 disables the check.

    Thread: control.
    """

    def __init__(self, ownership: Ownership, mailbox: Mailbox, timeout_ns: int) -> None:
        self._owners, self._words, self.timeout_ns = ownership, mailbox.words, timeout_ns
        self._is_silent, self._first_ns = False, 0
        self._start_ns = max(timeout_ns, round(START_TIMEOUT * 1e9))

    def check(self, now_ns: int) -> None:
        """Check the age of heartbeat and targets; after a timeout, report it and let arms hold."""
        owners = self._owners
        if self.timeout_ns:
            self._first_ns = self._first_ns or now_ns
            beat = self._words[_HEARTBEAT]
            # The loop may take longer to start than the timeout. The age of a heartbeat from
            # before the first cycle is therefore counted from the first cycle.
            age = now_ns - max(beat, self._first_ns)
            is_silent = age > (self.timeout_ns if beat else self._start_ns)
            if is_silent and not self._is_silent:
                text = f"no heartbeat of the owning process for {age / 1e9:.2f} s"
                owners.hold_all(Event.CLIENT_SILENT, f"{text}; all arms hold", now_ns)
            self._is_silent = is_silent
        for instance in owners.active:
            if instance.is_stale(now_ns):
                owners.attempt(instance, partial(owners.restart, instance, now_ns), now_ns)
                text = "targets have stopped; holding the measured state"
                owners.report(Event.TARGET_STALE, instance, text, now_ns)
