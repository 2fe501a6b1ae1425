# SPDX-License-Identifier: Apache-2.0
"""Speed bounds of references, reports of held references, and a tethered reference pose."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import pinocchio as pin
from numpy import add, dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.state import ArmState, Matrix, Vector

SPEED_RATIO = 1.1
"""Ratio of a bounded reference speed to the goal speed. It exceeds 1 so that the gap closes."""
STREAM_SPEED = 1e-3
"""Speed at or below which a goal counts as at rest, or as having jumped [unit/s]."""
CAUGHT_UP_TIME = 0.15
"""Gap to a moving goal, divided by the speed of the goal, below which the reference has caught up
[s]."""
CAUGHT_UP_GAP = 1e-3
"""Gap below which a reference has caught up at any speed [unit]."""
GOAL_MOTION_TIMEOUT = 1.0
"""Time after which a goal motion no longer counts [s]."""
MAX_STEP_INTERVAL = 0.25
"""Maximum time between two steps of one motion [s]."""
AVERAGING_TIME = 0.15
"""Averaging time of the goal speed [s]."""
JUMP_RATIO = 4.0
"""Ratio of two successive steps above which the goal has jumped instead of being streamed."""


class ReferenceCap:
    """Bound on the reference speed from the speed of its goal.

    Equations::

        v_max = max(v_c, 1.1 v_g)    in contact
        v_max = 1.1 max_t v_g        after a stream was held back

    - v_max: Speed bound [unit/s].
    - v_c: Bound in contact [unit/s].
    - v_g: Speed of the goals sent by the client [unit/s].

    v_g is the maximum of the means over 0.15 s within the last second, so that a goal may reverse.
    A step counts up to the length of the previous step if that is less than 0.25 s old. A goal
    that jumps therefore has no speed. The second bound ends when the gap is below the goal's
    motion in 0.15 s, or at a jump.

    Cycles without a goal and without a query need no computation. Times are cycle counts.

    Args:
        period: Cycle time [s].

    Attributes:
        acts: True if ``speed`` can be finite without contact.

    Thread: control.
    """

    __slots__ = (
        "_length",
        "_max_goal_speed",
        "_period",
        "_recent",
        "_speeds",
        "_start",
        "_step",
        "_time",
        "_window",
        "_within",
        "acts",
    )  # fmt: skip

    def __init__(self, period: float) -> None:
        self._period = period
        self._within, self._window, self._recent = (
            round(time / period)
            for time in (MAX_STEP_INTERVAL, AVERAGING_TIME, GOAL_MOTION_TIMEOUT)
        )
        self._speeds: deque[tuple[int, float]] = deque(
            maxlen=1 + round(GOAL_MOTION_TIMEOUT / AVERAGING_TIME)
        )
        self.reset()

    def reset(self) -> None:
        self._speeds.clear()
        self._step = self._length = self._max_goal_speed = 0.0
        self._time = self._start = -self._within
        self.acts = False

    def give(self, step: float, now: int) -> None:
        """Process a step of the goal.

        Args:
            step: Distance of the new goal from the last one [unit].
            now: Time of the step [cycles].
        """
        # After a pause of the stream, this step begins a new motion.
        if now - self._time > self._within:
            self._start, self._length, self._step = now, 0.0, 0.0
        if step > CAUGHT_UP_GAP and step > JUMP_RATIO * self._step:
            self.acts = False
        self._length += min(step, self._step)
        self._step, self._time = step, now
        if (cycles := now - self._start) >= self._window:
            self._speeds.append((now, self._length / (cycles * self._period)))
            self._start, self._length = now, 0.0

    def streams(self, now: int) -> bool:
        """Return True if the goal is streamed without a jump."""
        if now - self._time > self._within:
            return False
        if (
            self._speeds
            and self._speeds[-1][0] == self._start
            and self._speeds[-1][1] > STREAM_SPEED
        ):
            return True
        return self._length > STREAM_SPEED * self._period * max(now - self._start, self._window)

    def hold(self, now: int) -> None:
        """Record that the reference is held back in this cycle."""
        if not self.acts:
            self._max_goal_speed = 0.0
        self._max_goal_speed = max(self._max_goal_speed, self.goal_speed(now))
        self.acts = self._max_goal_speed > STREAM_SPEED

    def speed(
        self, gap: float, now: int, in_contact: float = math.inf, rate: float = 0.0
    ) -> float:
        """Return the speed bound [unit/s].

        Args:
            gap: Distance from the reference to its goal [unit].
            now: Time [cycles].
            in_contact: Bound in contact; infinite without contact [unit/s].
            rate: Speed of the goal sent by the client [unit/s].
        """
        fastest = max(self.goal_speed(now), rate)
        bound = max(in_contact, SPEED_RATIO * fastest)
        if self.acts:
            self._max_goal_speed = max(self._max_goal_speed, fastest)
            if gap < CAUGHT_UP_TIME * self._max_goal_speed + CAUGHT_UP_GAP:
                self.acts = False
            else:
                bound = min(bound, SPEED_RATIO * self._max_goal_speed)
        return bound

    def goal_speed(self, now: int) -> float:
        """Return the maximum speed of the goal within the last second [unit/s]."""
        since = now - self._recent
        return max([speed for time, speed in self._speeds if time > since], default=0.0)


HELD_NOTICE, FOLLOWED_NOTICE = "target not followed", "target followed again"
"""First words of the two notices, after the name of the arm."""
REPORT_DELAY = 0.3
"""Time after which a held reference is reported [s]."""
RELEASE_DELAY = 0.1
"""Time after which a reference that follows again is reported [s]."""
REPORT_INTERVAL = 1.0
"""Minimum time between two reports of the same reference [s]."""


class HeldReferenceReporter:
    """Reporter of when a reference is held back from its goal, and when it follows again.

    A reference that is held back for 0.3 s is reported with the reason. The end is reported when
    it has followed for 0.1 s or has arrived. After a report, the next one waits for a second.

    Args:
        context: Context of the controllet.
        name: Name of the arm, or of the object that it moves.

    Attributes:
        is_reported: True if the last report is that the reference is held back.
        cycles: Number of cycles for which it has been held back; 0 if ``update`` has no effect.

    Thread: control.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._notify, self._name, self._period = context.notify, name, context.period
        self._after, self._free, self._pause = (
            max(1, round(time / context.period))
            for time in (REPORT_DELAY, RELEASE_DELAY, REPORT_INTERVAL)
        )
        self.reset()

    def reset(self) -> None:
        self.is_reported = False
        self.cycles = self._freed = 0
        self._reported_at = -math.inf

    def update(self, is_held: bool, now: int, reason: Callable[[], str]) -> None:
        """Count one cycle, and send a report if it is due.

        Args:
            is_held: True if the reference is held back now.
            now: Time [cycles].
            reason: Function that returns the reason; called only for a report.
        """
        if not is_held:
            self._let_free()
            return
        self._freed = 0
        self.cycles += 1
        is_due = self.cycles > self._after and now - self._reported_at > self._pause
        if is_due and not self.is_reported:
            self.is_reported, self._reported_at = True, now
            self._notify(f"{self._name}: {HELD_NOTICE}: {reason()}")

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
            self._notify(f"{self._name}: {FOLLOWED_NOTICE} after {lasted:.1f} s")
        self.is_reported, self.cycles = False, 0


_log3, _exp3 = pin.log3, pin.exp3


class BoundedPose:
    """Reference pose with bounded speed and bounded distance from the measured pose.

    Equations per cycle::

        p_r += shorten(p_d - p_r, v_max T)
        R_r  = exp(shorten(log(R_d R_r^T), omega_max T)) R_r

    - p_r, R_r: Reference position [m] and rotation.
    - p_d, R_d: Desired position [m] and rotation.
    - v_max, omega_max: Maximum speeds [m/s], [rad/s].
    - T: Cycle time [s].
    - shorten(x, l): x scaled to a maximum norm l.

    The reference then stays within the tether, a maximum distance from the measured pose. This
    bounds the error of a tool that is held back.

    Attributes:
        position: Reference position in the base, (3,) [m].
        rotation: Reference rotation in the base, (3, 3).
        distance: Distance from the measured position, limited by the tether [m].
        angle: Angle from the measured rotation, limited by the tether [rad].

    Thread: control.
    """

    def __init__(self) -> None:
        self.position, self.rotation = np.zeros(3), np.eye(3)
        self.distance = self.angle = 0.0
        self._step, self._turned = np.zeros(3), np.zeros((3, 3))
        self.set_bounds(math.inf, math.inf, math.inf, math.inf)

    def set_bounds(
        self, speed: float, angular_speed: float, distance: float, angle: float
    ) -> None:
        """Set the maximum speeds and the tether.

        Args:
            speed: Maximum speed [m/s].
            angular_speed: Maximum angular speed [rad/s].
            distance: Maximum distance from the measured position [m].
            angle: Maximum angle from the measured rotation [rad].
        """
        self._speed, self._angular_speed = speed, angular_speed
        self._tether, self._rotation_tether = distance, angle

    def start(self, state: ArmState) -> None:
        """Start at the measured pose."""
        self.position[:] = state.position_ee_in_base
        self.rotation[:] = state.rotation_ee_in_base

    def displace(self, error: Vector) -> None:
        """Displace the reference by an error (6,) [m, rad] along the base axes, without a ramp."""
        add(self.position, error[:3], self.position)
        self.rotation[:] = dot(_exp3(error[3:]), self.rotation)

    def advance(self, position: Vector, rotation: Matrix, period: float) -> None:
        """Move towards a pose for one period.

        Args:
            position: Goal position, (3,) [m].
            rotation: Goal rotation, (3, 3).
            period: Cycle time [s].
        """
        step = subtract(position, self.position, self._step)
        length, max_value = math.sqrt(dot(step, step)), self._speed * period
        if length > max_value:
            multiply(step, max_value / length, step)
            add(self.position, step, self.position)
        else:
            self.position[:] = position
        rotation_angle = _log3(dot(rotation, self.rotation.T, self._turned))
        angle, max_value = (
            math.sqrt(dot(rotation_angle, rotation_angle)),
            self._angular_speed * period,
        )
        if angle > max_value:
            self.rotation[:] = dot(_exp3(rotation_angle * (max_value / angle)), self.rotation)
        else:
            self.rotation[:] = rotation

    def tie(self, state: ArmState) -> None:
        """Move the reference towards the measured pose, to within the tether."""
        ahead = subtract(self.position, state.position_ee_in_base, self._step)
        self.distance = math.sqrt(dot(ahead, ahead))
        if self.distance > self._tether:
            multiply(ahead, self._tether / self.distance, ahead)
            add(state.position_ee_in_base, ahead, self.position)
            self.distance = self._tether
        measured = state.rotation_ee_in_base
        rotation_vector = _log3(dot(self.rotation, measured.T, self._turned))
        self.angle = math.sqrt(dot(rotation_vector, rotation_vector))
        if self.angle > self._rotation_tether:
            self.rotation[:] = dot(
                _exp3(rotation_vector * (self._rotation_tether / self.angle)), measured
            )
            self.angle = self._rotation_tether

    def limit(self, twist: Vector) -> None:
        """Bound a twist (6,) by the maximum speeds, and fade it out near the end of the tether."""
        for part, max_value, used in (
            (twist[:3], self._speed, self.distance / self._tether),
            (twist[3:], self._angular_speed, self.angle / self._rotation_tether),
        ):
            size = math.sqrt(dot(part, part))
            multiply(part, (1.0 - used * used) * min(1.0, max_value / max(size, 1e-12)), part)
