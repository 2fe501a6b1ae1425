# SPDX-License-Identifier: Apache-2.0
"""Follow a goal with bounded velocity, acceleration and jerk, and stop exactly on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat

from multipanda_py.control.impedance.pose_error import scaled, weighed

_ARRIVED = 1e-9
"""Gap below which the goal counts as reached; the output then is the goal itself."""


class Tracker:
    r"""Move a point in n dimensions towards a goal that may jump, without passing it.

    In every cycle of length T, with the gap d to the goal, for each cycle in turn:

    .. math::
        v^* = \dot g + \frac{d}{\|d\|} \min\left( a \left( \sqrt{T^2 + 2 \|d\| / a} - T \right),
        v_{max} \right), \qquad
        v {+}= \mathrm{shorten}(v^* - v,\; a T)

    The root is the largest speed from which one more cycle and then braking with a end at the
    goal, so the newest goal is never passed by a point that came from rest, and a goal at rest
    is reached in finite time. What is given out is the mean of the last n velocities,

    .. math::
        \dot r_k = \frac1n \sum_{i=0}^{n-1} v_{k-i}, \qquad
        \ddot r_k = \frac{v_k - v_{k-n}}{n T}, \qquad \|\dddot r\| \le \frac{2 a}{n T}

    so that the jerk is bounded too, nothing is passed that v does not pass, and the end is
    exact. It costs a lag of (n - 1) T / 2, and a goal at speed v without a known :math:`\dot g`
    another v / (2 a): as much as is needed to be able to stop on the newest one.

    Plain floats: for a few numbers they are faster than arrays, three of them more so.

    Args:
        size: Number of dimensions.

    Attributes:
        hardest: a, the present bound [unit/s^2].
        cap: Additional bound of the speed [unit/s]; see :meth:`set_cap`.
        speed: v, before the mean [unit/s].
        rate: :math:`\dot r`, the velocity given out [unit/s].
        acceleration: :math:`\ddot r` [unit/s^2].
        lag: What the output is behind the point that moves with v [unit].
        moving: Whether the next :meth:`step` can change anything.

    Thread: control.
    """

    __slots__ = (
        "_distance",
        "_fastest",
        "_left",
        "_most",
        "_past",
        "_period",
        "_place",
        "_still",
        "acceleration",
        "cap",
        "hardest",
        "lag",
        "moving",
        "rate",
        "speed",
    )

    def __init__(self, size: int) -> None:
        self._still = [0.0] * size
        self.moving = False
        self._distance = self._period = 0.0
        self.hardest = self._fastest = self._most = 1.0
        self.cap = math.inf
        self._past: list[list[float]] = [self._still]
        self.start(self._still, 1, 1e-3)

    def set_bounds(self, acceleration: float, speed: float) -> None:
        """Set a [unit/s^2], but not less than it takes to stop on the goal, and v_max [unit/s]."""
        if acceleration < self.hardest and self.moving:
            now = math.hypot(*self.speed)
            room = self._distance - 2.0 * now * self._period  # after this cycle, and one more
            needed = 0.5 * now * now / room if room > 0.0 else self.hardest
            acceleration = min(self.hardest, max(acceleration, needed))
        self.bound(acceleration, speed)

    def bound(self, acceleration: float, speed: float) -> None:
        """Set a [unit/s^2] and v_max [unit/s], even if it cannot stop on the goal with them."""
        self.hardest, self._fastest = acceleration, speed
        self._most = speed if speed < self.cap else self.cap

    def set_cap(self, cap: float) -> None:
        """Set an additional bound of the speed [unit/s]."""
        self.cap = cap
        self.bound(self.hardest, self._fastest)

    @property
    def is_still(self) -> bool:
        """Whether v and the velocity of the output are zero."""
        return self.speed is self._still and self.rate is self._still

    def start(self, speed: Sequence[float], cycles: int, period: float) -> None:
        """Begin with a velocity that has been the same for a while; n is ``cycles``."""
        self.moving = any(speed)
        self.speed = self.rate = list(speed) if self.moving else self._still
        self.acceleration = self._still
        self._period = period
        self.lag = [v * 0.5 * (cycles - 1) * period for v in self.speed]
        self._past = [self.speed] * cycles
        self._place = 0
        self._left = cycles
        self._distance = 0.0 if self.moving else math.inf  # nothing has to be stopped at rest

    def rest(self, cycles: int, period: float) -> None:
        """Be at rest where the output is, with another n from now on."""
        self.start(self._still, cycles, period)

    def halt(self) -> None:
        """Be at rest where the output is, but go on to the goal."""
        self.rest(len(self._past), self._period)
        self.wake()

    def slow(self, share: float) -> None:
        """Go on with a share of the velocity, at once, as something is in the way.

        The lag shrinks with it: who keeps the output where it was moves the point that v moves.
        """
        self._past = [scaled(past, share) for past in self._past]
        self.speed = self._past[self._place - 1]
        self.rate, self.lag = scaled(self.rate, share), scaled(self.lag, share)
        self.acceleration = self._still

    def wake(self) -> None:
        """Begin to move, as there is a new goal."""
        self.moving = True
        self._left = len(self._past)

    def step(self, gap: Sequence[float], goal_rate: Sequence[float] | None, period: float) -> bool:
        """Choose the velocities of this cycle; return whether v ends exactly on the goal.

        Args:
            gap: From the point that moves with v to the goal.
            goal_rate: Velocity of the goal; None is rest.
            period: T [s].
        """
        a, old_speed = self.hardest, self.speed
        self._distance = distance = math.hypot(*gap)
        arrived = False
        if distance < _ARRIVED and goal_rate is None and math.hypot(*old_speed) < a * period:
            speed, arrived = self._still, True
        else:
            fastest = a * (math.sqrt(period * period + 2.0 * distance / a) - period)
            most = self._most
            scale = min(fastest, most) / max(distance, 1e-300)
            if goal_rate is None:
                change = weighed(gap, scale, old_speed, -1.0)
            else:
                wanted = weighed(gap, scale, goal_rate, 1.0)
                share = min(1.0, most / max(math.hypot(*wanted), 1e-300))
                change = weighed(wanted, share, old_speed, -1.0)
            share = min(1.0, a * period / max(math.hypot(*change), 1e-300))
            speed = weighed(change, share, old_speed, 1.0)
        self._give_out(speed, period)
        if not arrived:
            self._left = len(self._past)
        else:
            self._left -= 1
            if self._left <= 0:  # the mean has arrived as well: forget what rounding left
                self.rate, self.acceleration, self.lag = self._still, self._still, self._still
                self.moving = False
        return arrived

    def _give_out(self, speed: list[float], period: float) -> None:
        """Take a velocity into the mean."""
        past, place = self._past, self._place
        oldest = past[place]
        past[place] = self.speed = speed
        self._place = place + 1 if place + 1 < len(past) else 0
        share, frequency, rate, lag = 1.0 / len(past), 1.0 / period, self.rate, self.lag
        if len(speed) == 3:
            (vx, vy, vz), (ox, oy, oz), (rx, ry, rz), (ex, ey, ez) = speed, oldest, rate, lag
            rx, ax, ex = _taken(vx, ox, rx, ex, share, period, frequency)
            ry, ay, ey = _taken(vy, oy, ry, ey, share, period, frequency)
            rz, az, ez = _taken(vz, oz, rz, ez, share, period, frequency)
            self.rate, self.acceleration, self.lag = [rx, ry, rz], [ax, ay, az], [ex, ey, ez]
        else:
            given = map(repeat, (share, period, frequency))
            each = map(_taken, speed, oldest, rate, lag, *given)
            self.rate, self.acceleration, self.lag = map(list, zip(*each))


def _taken(
    v: float, o: float, r: float, e: float, share: float, period: float, frequency: float
) -> tuple[float, float, float]:
    """Return rate, acceleration and lag in one dimension, with a velocity taken into the mean.

    Args:
        v: The newest velocity.
        o: The oldest, which leaves the mean.
        r: The mean until now.
        e: The lag until now.
        share: Of one velocity in the mean.
        period: T [s].
        frequency: 1 / T [1/s].
    """
    change = (v - o) * share
    rate = r + change
    return rate, change * frequency, e + (v - rate) * period
