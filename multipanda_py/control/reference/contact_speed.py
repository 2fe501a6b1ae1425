# SPDX-License-Identifier: Apache-2.0
"""Speed bound of a reference in contact, and after it was held back."""

from __future__ import annotations

import math
from collections import deque

SPEED_RATIO = 1.1
"""Ratio of a bounded reference speed to the goal speed. It exceeds 1 so that the gap closes."""
STREAM_SPEED = 1e-3
"""Goal speed above which a goal counts as streamed [unit/s]. A goal at rest or after a jump has a
lower one."""
CAUGHT_UP_TIME = 0.15
"""Gap to a moving goal, divided by the speed of the goal, below which the reference has caught up
[s]."""
CAUGHT_UP_GAP = 1e-3
"""Gap below which a reference has caught up at any speed [unit]."""
GOAL_MOTION_TIMEOUT = 1.0
"""Time for which a motion of the goal counts for the speed of the goal [s]. The largest mean
within this time is used."""
MAX_STEP_INTERVAL = 0.25
"""Maximum time between two steps of one motion [s]."""
AVERAGING_TIME = 0.15
"""Averaging time of the goal speed [s]."""
JUMP_RATIO = 4.0
"""Ratio of two successive steps above which the goal has jumped instead of being streamed."""


class ReferenceCap:
    """Bound on the reference speed, derived from the speed of the goals that a client streams.

    It acts in contact, and after an obstacle or a limit has held the reference back.

    Equations::

        v_max = max(v_c, 1.1 v_g)    in contact
        v_max = 1.1 max_t v_g        after the reference was held back

    - v_max: Speed bound [unit/s].
    - v_c: Bound in contact for a goal at rest, from the parameters [unit/s].
    - v_g: Speed of the goals: maximum of its means over 0.15 s within the last second [unit/s].
    - max_t v_g: Maximum of v_g since this bound became active [unit/s].

    Each step of the goal counts only up to the length of the previous one, so a single jump has no
    speed. The second bound ends when the reference has nearly reached its goal, or when the goal
    jumps.

    Args:
        period: Cycle time [s].

    Attributes:
        acts: True while the bound after the reference was held back is active.

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

    def add_step(self, step: float, now: int) -> None:
        """Update the measured speed of the goal by one step.

        Args:
            step: Distance of the new goal from the last one [unit].
            now: Time of the step [cycles].
        """
        # The first step after a pause of the stream begins a new motion.
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
        """Return True if the goal moves in a stream of small steps at a time ``now`` [cycles]."""
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
        """Record that the reference is held back at a time ``now`` [cycles]."""
        if not self.acts:
            self._max_goal_speed = 0.0
        self._max_goal_speed = max(self._max_goal_speed, self.goal_speed(now))
        self.acts = self._max_goal_speed > STREAM_SPEED

    def speed(
        self, gap: float, now: int, in_contact: float = math.inf, rate: float = 0.0
    ) -> float:
        """Return the maximum reference speed [unit/s]; infinite if no bound is active.

        Args:
            gap: Distance from the reference to its goal [unit].
            now: Time [cycles].
            in_contact: Bound v_c in contact [unit/s]; infinite without contact.
            rate: Speed of the goal, if the client sends velocities [unit/s].
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
