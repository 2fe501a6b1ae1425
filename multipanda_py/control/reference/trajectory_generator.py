# SPDX-License-Identifier: Apache-2.0
"""Online trajectory generator with bounded velocity, acceleration and jerk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat

from multipanda_py.control.impedance.pose_error import scaled, weighed

_ARRIVAL_GAP = 1e-9
"""Gap below which the goal counts as reached [unit]. The output then equals the goal."""


class TrajectoryGenerator:
    """Trajectory generator in n dimensions towards a goal that may jump.

    A point moves to the goal without overshoot. The output is its position with the velocity
    averaged over N cycles. Equations per cycle k::

        v*   = dg + d / |d| min(a (sqrt(T^2 + 2 |d| / a) - T), v_max)
        v   <- v + shorten(v* - v, a T)
        dr   = 1/N sum_(i=0..N-1) v[k-i]
        ddr  = (v[k] - v[k-N]) / (N T),   |dddr| <= 2 a / (N T)

    - v: Velocity of the point, before averaging [unit/s]; v*: its desired value.
    - d: Vector from the point to the goal [unit].
    - dg: Velocity of the goal [unit/s]; zero if unknown.
    - a, v_max: Bounds of acceleration [unit/s^2] and speed [unit/s].
    - T: Cycle time [s].
    - dr, ddr, dddr: Velocity, acceleration and jerk of the output.
    - shorten(x, l): x scaled to a maximum norm l.

    The average bounds the jerk and adds a lag of (N - 1) T / 2. If dg is unknown, a goal of speed
    v adds a lag of v / (2 a).

    Args:
        size: Number of dimensions n.

    Attributes:
        acceleration_limit: Current acceleration bound a [unit/s^2].
        cap: Additional speed bound, see ``set_cap`` [unit/s].
        speed: Velocity v before averaging [unit/s].
        output_velocity: Output velocity dr [unit/s].
        acceleration: Output acceleration ddr [unit/s^2].
        lag: Vector from the output to the point [unit].
        moving: True if the next ``step`` can change the output.

    Thread: control.
    """

    __slots__ = (
        "_distance",
        "_history",
        "_left",
        "_max_speed",
        "_period",
        "_ring_index",
        "_speed_limit",
        "_still",
        "acceleration",
        "acceleration_limit",
        "cap",
        "lag",
        "moving",
        "output_velocity",
        "speed",
    )

    def __init__(self, size: int) -> None:
        self._still = [0.0] * size
        self.moving = False
        self._distance = self._period = 0.0
        self.acceleration_limit = self._speed_limit = self._max_speed = 1.0
        self.cap = math.inf
        self._history: list[list[float]] = [self._still]
        self.start(self._still, 1, 1e-3)

    def set_bounds(self, acceleration: float, speed: float) -> None:
        """Set the bounds. In motion, the acceleration bound stays high enough to stop at the goal.

        Args:
            acceleration: Acceleration bound [unit/s^2].
            speed: Speed bound [unit/s].
        """
        if acceleration < self.acceleration_limit and self.moving:
            now = math.hypot(*self.speed)
            # The point moves for two more cycles before it brakes, so subtract this distance.
            distance = self._distance - 2.0 * now * self._period
            needed = 0.5 * now * now / distance if distance > 0.0 else self.acceleration_limit
            acceleration = min(self.acceleration_limit, max(acceleration, needed))
        self.bound(acceleration, speed)

    def bound(self, acceleration: float, speed: float) -> None:
        """Set the bounds immediately, even if the point then overshoots its goal.

        Args:
            acceleration: Acceleration bound [unit/s^2].
            speed: Speed bound [unit/s].
        """
        self.acceleration_limit, self._speed_limit = acceleration, speed
        self._max_speed = speed if speed < self.cap else self.cap

    def set_cap(self, cap: float) -> None:
        """Set an additional speed bound [unit/s]."""
        self.cap = cap
        self.bound(self.acceleration_limit, self._speed_limit)

    @property
    def is_still(self) -> bool:
        """True if the velocities before and after averaging are zero."""
        return self.speed is self._still and self.output_velocity is self._still

    def start(self, speed: Sequence[float], cycles: int, period: float) -> None:
        """Start in motion, as if the velocity had been constant for N cycles.

        Args:
            speed: Velocity, (n,) [unit/s].
            cycles: Length N of the moving average of the velocity [cycles].
            period: Cycle time T [s].
        """
        self.moving = any(speed)
        self.speed = self.output_velocity = list(speed) if self.moving else self._still
        self.acceleration = self._still
        self._period = period
        self.lag = [v * 0.5 * (cycles - 1) * period for v in self.speed]
        self._history = [self.speed] * cycles
        self._ring_index = 0
        self._left = cycles
        # Distance left for braking. In motion, it is unknown before the first step, and 0 means
        # that ``set_bounds`` must not lower the acceleration bound.
        self._distance = 0.0 if self.moving else math.inf

    def stop(self, cycles: int, period: float) -> None:
        """Stop immediately at the current output.

        Args:
            cycles: Length N of the moving average of the velocity [cycles].
            period: Cycle time T [s].
        """
        self.start(self._still, cycles, period)

    def stop_and_resume(self) -> None:
        """Stop immediately at the current output, and start again towards the goal."""
        self.stop(len(self._history), self._period)
        self.resume()

    def scale_velocity(self, scale: float) -> None:
        """Scale the velocity and ``lag`` immediately, for example at an obstacle.

        The caller must move the point by the change of ``lag``, so that the output stays in place.
        """
        self._history = [scaled(history, scale) for history in self._history]
        self.speed = self._history[self._ring_index - 1]
        self.output_velocity, self.lag = (
            scaled(self.output_velocity, scale),
            scaled(self.lag, scale),
        )
        self.acceleration = self._still

    def resume(self) -> None:
        """Let the point move to its goal, after a stop or an arrival."""
        self.moving = True
        self._left = len(self._history)

    def step(self, gap: Sequence[float], goal_rate: Sequence[float] | None, period: float) -> bool:
        """Compute the velocities of this cycle. Return True if the point arrives at the goal.

        Args:
            gap: Vector d from the point to the goal, (n,) [unit].
            goal_rate: Velocity of the goal [unit/s]; None means rest.
            period: Cycle time T [s].
        """
        a, old_speed = self.acceleration_limit, self.speed
        self._distance = distance = math.hypot(*gap)
        arrived = False
        if distance < _ARRIVAL_GAP and goal_rate is None and math.hypot(*old_speed) < a * period:
            speed, arrived = self._still, True
        else:
            fastest = a * (math.sqrt(period * period + 2.0 * distance / a) - period)
            max_value = self._max_speed
            scale = min(fastest, max_value) / max(distance, 1e-300)
            if goal_rate is None:
                change = weighed(gap, scale, old_speed, -1.0)
            else:
                desired = weighed(gap, scale, goal_rate, 1.0)
                fraction = min(1.0, max_value / max(math.hypot(*desired), 1e-300))
                change = weighed(desired, fraction, old_speed, -1.0)
            fraction = min(1.0, a * period / max(math.hypot(*change), 1e-300))
            speed = weighed(change, fraction, old_speed, 1.0)
        self._update_output(speed, period)
        if not arrived:
            self._left = len(self._history)
        else:
            self._left -= 1
            # The point has been at the goal for N cycles, so the output has arrived too.
            if self._left <= 0:
                self.output_velocity, self.acceleration, self.lag = (
                    self._still,
                    self._still,
                    self._still,
                )
                self.moving = False
        return arrived

    def _update_output(self, speed: list[float], period: float) -> None:
        history, index = self._history, self._ring_index
        oldest = history[index]
        history[index] = self.speed = speed
        self._ring_index = index + 1 if index + 1 < len(history) else 0
        weight, frequency, rate, lag = (
            1.0 / len(history),
            1.0 / period,
            self.output_velocity,
            self.lag,
        )
        if len(speed) == 3:
            (vx, vy, vz), (ox, oy, oz), (rx, ry, rz), (ex, ey, ez) = speed, oldest, rate, lag
            rx, ax, ex = _next_output(vx, ox, rx, ex, weight, period, frequency)
            ry, ay, ey = _next_output(vy, oy, ry, ey, weight, period, frequency)
            rz, az, ez = _next_output(vz, oz, rz, ez, weight, period, frequency)
            self.output_velocity, self.acceleration, self.lag = (
                [rx, ry, rz],
                [ax, ay, az],
                [ex, ey, ez],
            )
        else:
            constants = map(repeat, (weight, period, frequency))
            each = map(_next_output, speed, oldest, rate, lag, *constants)
            self.output_velocity, self.acceleration, self.lag = map(list, zip(*each))


def _next_output(
    v: float, o: float, r: float, e: float, weight: float, period: float, frequency: float
) -> tuple[float, float, float]:
    # v: new velocity of the point; o: oldest one, which leaves the average; r, e: average and lag.
    change = (v - o) * weight
    rate = r + change
    return rate, change * frequency, e + (v - rate) * period
