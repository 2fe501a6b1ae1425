# SPDX-License-Identifier: Apache-2.0
"""A reference pose that moves with bounded speed, and not far ahead of its tool."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.state import ArmState, Matrix, Vector

LEAD = 1.1
"""Speed of a bounded reference relative to the speed of its goal: the gap closes in the end."""
STREAM = 1e-3
"""Speed of a goal below which it has jumped and does not move [unit/s]."""
CAUGHT_UP = 0.15
"""Time in which the goal covers the gap of a reference that follows again [s]."""
NEAR = 1e-3
"""Gap below which a reference follows in any case [unit]."""
RECENT = 1.0
"""Time after which a motion of the goal is forgotten [s]."""
WITHIN = 0.25
"""Longest time between two steps of one motion [s]."""
WINDOW = 0.15
"""Time over which the speed of a goal is averaged [s]."""
JUMP = 4.0
"""Step of a goal relative to the previous step, above which it is a new goal and no stream."""


class ReferenceCap:
    r"""Bound a reference by the speed at which its goal moves.

    .. math::
        v_{max} = \max(v_c,\; 1.1\, v_g) \text{ in contact}, \qquad
        v_{max} = 1.1\, \max_t v_g \text{ after a stream was held back}

    with the bound :math:`v_c` in contact and the goal's speed :math:`v_g`, from the goals as they
    are given. It is the largest mean over 0.15 s in the last second, so that a goal may reverse. A
    step counts up to the length of the previous step, if that is less than 0.25 s old: a goal
    that jumps does not move. The second bound ends when the goal covers the gap within 0.15 s, or
    jumps.

    Cycles without a goal and without a request cost nothing. Times are counts of cycles.

    Args:
        period: Cycle time [s].

    Attributes:
        acts: Whether :meth:`speed` can be finite without a contact.

    Thread: control.
    """

    __slots__ = (
        "_fastest", "_length", "_period", "_recent", "_speeds", "_start", "_step", "_time",
        "_window", "_within", "acts",
    )  # fmt: skip

    def __init__(self, period: float) -> None:
        self._period = period
        self._within, self._window, self._recent = (
            round(time / period) for time in (WITHIN, WINDOW, RECENT)
        )
        self._speeds: deque[tuple[int, float]] = deque(maxlen=1 + round(RECENT / WINDOW))
        self.reset()

    def reset(self) -> None:
        """Forget the goal's motion."""
        self._speeds.clear()
        self._step = self._length = self._fastest = 0.0
        self._time = self._start = -self._within
        self.acts = False

    def give(self, step: float, now: int) -> None:
        """Receive a step of the goal [unit], at a time [cycles]."""
        if now - self._time > self._within:  # the first one
            self._start, self._length, self._step = now, 0.0, 0.0
        if step > NEAR and step > JUMP * self._step:
            self.acts = False
        self._length += min(step, self._step)
        self._step, self._time = step, now
        if (cycles := now - self._start) >= self._window:
            self._speeds.append((now, self._length / (cycles * self._period)))
            self._start, self._length = now, 0.0

    def streams(self, now: int) -> bool:
        """Return whether the goal is streamed, without a jump."""
        if now - self._time > self._within:
            return False
        if self._speeds and self._speeds[-1][0] == self._start and self._speeds[-1][1] > STREAM:
            return True
        return self._length > STREAM * self._period * max(now - self._start, self._window)

    def hold(self, now: int) -> None:
        """Note that the reference is held back in this cycle."""
        if not self.acts:
            self._fastest = 0.0
        self._fastest = max(self._fastest, self.goal_speed(now))
        self.acts = self._fastest > STREAM

    def speed(
        self, gap: float, now: int, in_contact: float = math.inf, rate: float = 0.0
    ) -> float:
        """Return the bound [unit/s].

        Args:
            gap: Distance from the reference to its goal [unit].
            now: Time [cycles].
            in_contact: Bound in contact, infinite without contact [unit/s].
            rate: Speed of the goal that the client has sent [unit/s].
        """
        fastest = max(self.goal_speed(now), rate)
        bound = max(in_contact, LEAD * fastest)
        if self.acts:
            self._fastest = max(self._fastest, fastest)
            if gap < CAUGHT_UP * self._fastest + NEAR:
                self.acts = False
            else:
                bound = min(bound, LEAD * self._fastest)
        return bound

    def goal_speed(self, now: int) -> float:
        """Return the largest speed of the goal in the last second [unit/s]."""
        since = now - self._recent
        return max([speed for time, speed in self._speeds if time > since], default=0.0)


HELD, FOLLOWED = "target not followed", "target followed again"
"""Beginnings of the two notices, after the name of the arm."""
AFTER = 0.3
"""Time for which a reference is held back before it is reported [s]."""
FREE = 0.1
"""Time for which it is free before that is reported [s]."""
PAUSE = 1.0
"""Minimum time between two reports of the same reference [s]."""


class HeldReference:
    """Report once that a reference is held back, and once that it follows again.

    A reference that is held back for 0.3 s is reported with the reason. It is reported again when
    it has been free for 0.1 s, or has arrived. Within a second after the last report nothing is
    reported; if the reference is still held back then, the report follows.

    Args:
        context: Context of the controllet.
        name: Name of the arm, or of the object that it moves.

    Attributes:
        is_reported: Whether the last report is that it is held back.
        cycles: Cycles for which it has been held back; 0 if :meth:`update` has nothing to do.

    Thread: control.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._notify, self._name, self._period = context.notify, name, context.period
        self._after, self._free, self._pause = (
            max(1, round(time / context.period)) for time in (AFTER, FREE, PAUSE)
        )
        self.reset()

    def reset(self) -> None:
        """Begin with a reference that is not held back."""
        self.is_reported = False
        self.cycles = self._freed = 0
        self._reported_at = -math.inf

    def update(self, is_held: bool, now: int, why: Callable[[], str]) -> None:
        """Count one cycle, and report if it is time.

        Args:
            is_held: Whether the reference is held back now.
            now: Time [cycles].
            why: Function that returns the reason; called only for a report.
        """
        if not is_held:
            self._let_free()
            return
        self._freed = 0
        self.cycles += 1
        is_due = self.cycles > self._after and now - self._reported_at > self._pause
        if is_due and not self.is_reported:
            self.is_reported, self._reported_at = True, now
            self._notify(f"{self._name}: {HELD}: {why()}")

    def _let_free(self) -> None:
        if not self.cycles:
            return
        self._freed += 1
        if self.is_reported:
            self.cycles += 1
        if self._freed < self._free:
            return
        if self.is_reported:
            lasted = (self.cycles - self._freed) * self._period
            self._notify(f"{self._name}: {FOLLOWED} after {lasted:.1f} s")
        self.is_reported, self.cycles = False, 0


_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_log3, _exp3 = pin.log3, pin.exp3


class BoundedPose:
    r"""Follow a desired pose within bounds of speed, tied to the measured pose by a tether.

    In a cycle of length T the position moves by :math:`p_d - p_r` shortened to at most
    :math:`v_{max} T`, and the orientation by :math:`\log(R_d R_r^T)^\vee` shortened to at most
    :math:`\omega_{max} T`. Then both are brought within the tether of what is measured: a tool
    that is held back builds up no more error than that.

    Attributes:
        position: Reference position in the base, (3,) [m].
        rotation: Reference orientation, (3, 3).
        distance: From the measured position, after the tether [m].
        angle: From the measured orientation, after the tether [rad].

    Thread: control.
    """

    def __init__(self) -> None:
        self.position, self.rotation = np.zeros(3), np.eye(3)
        self.distance = self.angle = 0.0
        self._step, self._turned = np.zeros(3), np.zeros((3, 3))
        self.set_bounds(math.inf, math.inf, math.inf, math.inf)

    def set_bounds(self, speed: float, turn: float, distance: float, angle: float) -> None:
        """Set the largest speed [m/s], turn [rad/s], and the tether [m], [rad]."""
        self._speed, self._turn_speed = speed, turn
        self._tether, self._turn_tether = distance, angle

    def start(self, state: ArmState) -> None:
        """Begin at the measured pose."""
        self.position[:] = state.position_ee_in_base
        self.rotation[:] = state.rotation_ee_in_base

    def displace(self, error: Vector) -> None:
        """Move at once by an error (6,) [m, rad] along and about the axes of the base."""
        _add(self.position, error[:3], self.position)
        self.rotation[:] = _dot(_exp3(error[3:]), self.rotation)

    def advance(self, position: Vector, rotation: Matrix, period: float) -> None:
        """Move towards a pose for one period."""
        step = _subtract(position, self.position, self._step)
        length, most = math.sqrt(_dot(step, step)), self._speed * period
        if length > most:
            _multiply(step, most / length, step)
            _add(self.position, step, self.position)
        else:
            self.position[:] = position
        turn = _log3(_dot(rotation, self.rotation.T, self._turned))
        angle, most = math.sqrt(_dot(turn, turn)), self._turn_speed * period
        if angle > most:
            self.rotation[:] = _dot(_exp3(turn * (most / angle)), self.rotation)
        else:
            self.rotation[:] = rotation

    def tie(self, state: ArmState) -> None:
        """Stay within the tether of the measured pose."""
        ahead = _subtract(self.position, state.position_ee_in_base, self._step)
        self.distance = math.sqrt(_dot(ahead, ahead))
        if self.distance > self._tether:
            _multiply(ahead, self._tether / self.distance, ahead)
            _add(state.position_ee_in_base, ahead, self.position)
            self.distance = self._tether
        measured = state.rotation_ee_in_base
        turn = _log3(_dot(self.rotation, measured.T, self._turned))
        self.angle = math.sqrt(_dot(turn, turn))
        if self.angle > self._turn_tether:
            self.rotation[:] = _dot(_exp3(turn * (self._turn_tether / self.angle)), measured)
            self.angle = self._turn_tether

    def limit(self, twist: Vector) -> None:
        """Bound a twist (6,) by the speeds, and fade it out where the tether gets tight."""
        for part, most, used in (
            (twist[:3], self._speed, self.distance / self._tether),
            (twist[3:], self._turn_speed, self.angle / self._turn_tether),
        ):
            size = math.sqrt(_dot(part, part))
            _multiply(part, (1.0 - used * used) * min(1.0, most / max(size, 1e-12)), part)
