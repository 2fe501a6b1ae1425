# SPDX-License-Identifier: Apache-2.0
"""Velocity estimates and prediction of streamed goals, and reference feed-forward."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy import add, dot, multiply

from multipanda_py.control.impedance.pose_error import scaled
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.state import Vector
from multipanda_py.targets import ReferenceMotion


class TargetVelocityEstimator:
    """Estimator of the speed of a goal that a client streams in steps.

    Equations::

        tau du/dt = -u + sum_k p_k delta(t - t_k)
        tau dv/dt = u - v
        p_k = min(s_k, s_(k-1))

    - v: Estimated speed [unit/s]; u: speed after the first filter [unit/s].
    - s_k: Length of step k at time t_k [unit]; p_k: counted length [unit].
    - delta: Dirac impulse [1/s].
    - tau: Filter time constant ``FILTER_TIME`` [s].

    A step counts up to the length of the previous one, so a single jump has no speed.

    Args:
        period: Cycle time [s].

    Attributes:
        speed: Estimated speed v [unit/s].
        remembers: True if the goal has moved recently, so that ``advance`` has an effect.

    Thread: control.
    """

    __slots__ = ("_cycles", "_decay", "_last", "_left", "_period", "_raw", "remembers", "speed")

    FILTER_TIME = 0.05
    """Time constant of both filters [s]."""
    MAX_STEP_INTERVAL = 0.25
    """Maximum time between two steps of one motion [s]."""
    ZERO_SPEED = 1e-6
    """Speed that counts as zero [unit/s]."""

    def __init__(self, period: float) -> None:
        self._period, self._cycles = period, round(self.MAX_STEP_INTERVAL / period)
        self._decay = math.exp(-period / self.FILTER_TIME)
        self.reset()

    def reset(self) -> None:
        self.speed = self._raw = self._last = 0.0
        self._left, self.remembers = 0, False

    def step(self, size: float) -> None:
        """Update the speed estimate by a goal step of length ``size`` [unit]."""
        self._raw += (size if size < self._last else self._last) / self.FILTER_TIME
        self._last, self._left, self.remembers = size, self._cycles, True

    def advance(self) -> None:
        """Advance the filters by one cycle."""
        self._raw *= self._decay
        self.speed += (1.0 - self._decay) * (self._raw - self.speed)
        if self._left:
            self._left -= 1
        else:
            self._last = 0.0
            if self.speed < self.ZERO_SPEED:
                self.reset()


_pack = Struct("6d").pack_into
MIN_STEP = 1e-9
"""Minimum step of a goal that counts, above rounding errors [m, rad]."""


class ReferenceFeedForward:
    """Velocity and acceleration feed-forward of a reference for a controllet.

    Equations, for position and orientation separately::

        dx_ff  = s dr
        ddx_ff = s ddr
        s = min(1, rho v_g / |dr|)

    - dx_ff, ddx_ff: Feed-forward of velocity and acceleration.
    - dr, ddr: Velocity and acceleration of the reference.
    - s: Scale of the feed-forward, 0 to 1.
    - v_g: Speed of the goal: estimate of ``TargetVelocityEstimator``, or speed sent by the client.
    - rho: ``MAX_SPEED_RATIO``.

    After a jump of the goal, s is 0 and the arm follows by its spring alone. With
    ``governor.response: direct``, s is 1 after jumps as well.

    Args:
        motion: Feed-forward output for the controllet.

    Thread: control.
    """

    MAX_SPEED_RATIO = 3.0
    """Maximum ratio of the fed-forward speed to the goal speed. It exceeds 1 because streams are
    uneven, and because it reduces the delay of the feed-forward."""

    def __init__(self, motion: ReferenceMotion) -> None:
        self._motion, self._period = motion, 0.0
        self.start(1e-3)

    def start(self, period: float) -> None:
        """Start with a goal at rest, for a cycle time ``period`` [s]."""
        if period != self._period:
            self._period = period
            self._goal_speed, self._goal_angular_speed = (
                TargetVelocityEstimator(period),
                TargetVelocityEstimator(period),
            )
        self._goal_speed.reset()
        self._goal_angular_speed.reset()
        self._motion.moving = False

    @property
    def has_history(self) -> bool:
        """True if the goal has moved recently."""
        return self._goal_speed.remembers or self._goal_angular_speed.remembers

    def step(self, distance: float, angle: float) -> None:
        """Update the speed estimates by a step of the goal.

        Args:
            distance: Distance of the new goal from the last one [m].
            angle: Angle between the new and the last goal [rad].
        """
        if distance > MIN_STEP:
            self._goal_speed.step(distance)
        if angle > MIN_STEP:
            self._goal_angular_speed.step(angle)

    def advance(self) -> None:
        """Advance the speed estimates by one cycle."""
        if self._goal_speed.remembers:
            self._goal_speed.advance()
        if self._goal_angular_speed.remembers:
            self._goal_angular_speed.advance()

    def write(
        self,
        linear: TrajectoryGenerator,
        angular: TrajectoryGenerator,
        goal_rate: Vector | None,
        is_direct: bool = False,
    ) -> None:
        """Write the feed-forward of a reference into the ``motion`` of the controllet.

        Args:
            linear: Trajectory generator of the position.
            angular: Trajectory generator of the orientation.
            goal_rate: Twist of the goal, (6,) [m/s, rad/s]; None if unknown.
            is_direct: True to use full feed-forward, whatever the speed of the goal.
        """
        motion, rate, other = self._motion, linear.output_velocity, angular.output_velocity
        gain, other_gain = linear.acceleration, angular.acceleration
        speed, angular_speed = self._goal_speed.speed, self._goal_angular_speed.speed
        if is_direct:
            speed = angular_speed = math.inf
        elif goal_rate is not None:
            speed = max(speed, math.hypot(*goal_rate[:3]))
            angular_speed = max(angular_speed, math.hypot(*goal_rate[3:]))
        scale = self._fade_fraction(speed, rate)
        if scale < 1.0:
            rate, gain = scaled(rate, scale), scaled(gain, scale)
        scale = self._fade_fraction(angular_speed, other)
        if scale < 1.0:
            other, other_gain = scaled(other, scale), scaled(other_gain, scale)
        # Packing into the buffers is faster than array assignment.
        _pack(motion.twist.data, 0, *rate, *other)
        _pack(motion.acceleration.data, 0, *gain, *other_gain)
        motion.moving = linear.moving or angular.moving

    def _fade_fraction(self, target_speed: float, rate: Sequence[float]) -> float:
        max_value, speed = self.MAX_SPEED_RATIO * target_speed, math.hypot(*rate)
        return 1.0 if speed <= max_value else max_value / speed


class GoalPredictor:
    """Prediction of a streamed goal between its samples, with continuous position and velocity.

    A third-order low-pass filter follows the newest sample, extrapolated with its velocity::

        dddp = L^3 (g + v l(t) - p) + 3 L^2 (eta v dl(t) - dp) - 3 L ddp
        L    = clip(1.55 D^(-2/3), 8, 28)

    - p, dp, ddp, dddp: Prediction and its derivatives [unit, unit/s, ...].
    - g, v: Newest sample [unit] and its velocity [unit/s]; t: its age [s].
    - l(t), dl(t): Lead time of the extrapolation [s] and its derivative.
    - D: Mean time between samples [s].
    - L: Filter rate [1/s].
    - eta: ``FEEDFORWARD_FRACTION``.

    The lead time l is t up to 1.9 D and constant from 3.2 D, which bridges lost samples. After
    ``MAX_SAMPLE_INTERVAL``, the stream has ended and p returns to the last sample.

    The velocity v is sent by the client, or is the mean velocity of the samples over at least
    ``MIN_AVERAGING_TIME``. v excludes jumps of the goal. A jump within a stream displaces p.

    Args:
        size: Number of dimensions.
        period: Cycle time T [s].

    Attributes:
        active: True while the goal is streamed or the prediction returns to the last sample.
        position: Prediction p, (size,) [unit].
        velocity: Velocity dp, (size,) [unit/s].

    Thread: control.
    """

    MIN_AVERAGING_TIME = 0.02
    """Minimum averaging time of a velocity [s]."""
    MAX_SAMPLE_INTERVAL = 0.25
    """Maximum time between two samples of one stream [s]."""
    FEEDFORWARD_FRACTION = 0.87
    """Fraction eta of the velocity feed-forward. A value of 1 overshoots when an operator
    brakes."""
    FILTER_RATE_FACTOR, MIN_FILTER_RATE, MAX_FILTER_RATE = 1.55, 8.0, 28.0
    """Factor [s^(-1/3)] and bounds [1/s] of the filter rate L."""
    MAX_VELOCITY_CHANGE_RATIO = 3.0
    """Maximum accepted change of a velocity, in units of the change that the arm's acceleration
    allows."""
    FADE_START_AGE, FADE_END_AGE = 1.9, 3.2
    """Ages of a sample between which its velocity fades out, in mean sample intervals."""
    MIN_FADE_START_AGE, MIN_FADE_END_AGE = 0.01, 0.045
    """Minimum values of ``FADE_START_AGE`` and ``FADE_END_AGE`` [s], because fast streams also
    pause."""
    REST_TOLERANCE = 1e-6
    """Distance [unit] and speed [unit/s] from a goal at rest at which the prediction ends."""

    def __init__(self, size: int, period: float) -> None:
        self._period, self._size = period, size
        self._state, self._next, self._driven = np.zeros((3, 3, size))
        self._input = np.zeros((2, size))
        self.position, self.velocity = self._state[0], self._state[1]
        self._samples: deque[tuple[int, Vector]] = deque()
        self._clock = 0
        self.reset()

    def reset(self) -> None:
        self.active = False
        self._samples.clear()
        self._goal, self._speed, self._still = np.zeros((3, self._size))
        self._jumped = False
        self._raw: Vector | None = None
        self._came, self._mean = self._clock, 0.0

    def tick(self) -> None:
        """Advance the clock by one cycle. Call this in every cycle."""
        self._clock += 1

    def sample(
        self,
        goal: Sequence[float],
        rate: Sequence[float] | None,
        max_acceleration: float,
        timeout: float,
    ) -> None:
        """Process a sample of the goal.

        Args:
            goal: Position, (size,) [unit].
            rate: Velocity sent by the client, (size,) [unit/s]; None without one.
            max_acceleration: Maximum acceleration of the arm [unit/s^2].
            timeout: Maximum time for which a velocity is valid [s].
        """
        new, age = np.array(goal), (self._clock - self._came) * self._period
        if age > self.MAX_SAMPLE_INTERVAL:
            self._samples.clear()
        raw, step, change = None, np.zeros(self._size), 0.0
        if self._samples:
            usual = self._mean or age
            self._mean = usual + 0.2 * (min(age, 2.0 * usual) - usual)
            raw, span = self._mean_velocity(new)
            step, change = (
                new - self._goal,
                self.MAX_VELOCITY_CHANGE_RATIO * max_acceleration * span,
            )
        else:
            self._mean = 0.0
        speed = self._velocity_unless_jump(raw, change) if rate is None else np.array(rate)
        if speed is None:
            self._shift_by_jump(step - self._speed * age)
            speed = 0.5 * self._speed if self._jumped else self._speed
            raw, self._jumped = speed, True
        else:
            self._jumped = False
        if not self.active and speed.any():
            self._state[:] = 0.0
            self._state[0], self.active = new - step, True
        if self.active:
            # If the client sends a velocity, a step that differs much from it is a jump of the
            # goal. The filter then continues from the displaced goal.
            if rate is not None:
                jump = step - speed * age if self._samples else new - self.position
                usual_error = (
                    self.MAX_VELOCITY_CHANGE_RATIO
                    * max_acceleration
                    * max(age, self.MIN_AVERAGING_TIME) ** 2
                )
                if math.hypot(*jump.tolist()) > 2.0 * usual_error:
                    self._shift_by_jump(jump)
            self._speed = speed
            self._design_filter(timeout)
        self._goal, self._raw, self._came = new, raw, self._clock
        self._samples.append((self._clock, new))

    def _shift_by_jump(self, jump: Vector) -> None:
        self._state[0] += jump
        for _, position in self._samples:
            position += jump

    def _mean_velocity(self, goal: Vector) -> tuple[Vector, float]:
        samples, period, now = self._samples, self._period, self._clock
        window = self.MIN_AVERAGING_TIME - 0.5 * period
        while len(samples) > 1 and (now - samples[1][0]) * period >= window:
            samples.popleft()
        clock, old = samples[0]
        span = max(now - clock, 1) * period
        return (goal - old) / span, span

    def _velocity_unless_jump(self, raw: Vector | None, change: float) -> Vector | None:
        if raw is None:
            return self._still
        known = (self._raw, self._speed) if self.active else (self._raw,)
        for other in known:
            if other is not None and math.hypot(*(raw - other).tolist()) <= change:
                return raw
        return None if self.active or self._raw is not None else self._still

    def _design_filter(self, timeout: float) -> None:
        T, mean = self._period, self._mean or timeout
        rate = min(
            self.MAX_FILTER_RATE,
            max(self.MIN_FILTER_RATE, self.FILTER_RATE_FACTOR * mean ** (-2.0 / 3.0)),
        )
        square, cube = 3.0 * T * rate**2, T * rate**3
        # Semi-implicit discretisation: the position uses the new velocity, which uses the new
        # acceleration.
        acceleration = np.array(
            [-cube, -square, 1.0 - 3.0 * T * rate, cube, square * self.FEEDFORWARD_FRACTION]
        )
        velocity = T * acceleration + [0.0, 1.0, 0.0, 0.0, 0.0]
        position = T * velocity + [1.0, 0.0, 0.0, 0.0, 0.0]
        rows = np.array([position, velocity, acceleration])
        self._own, self._commanded = rows[:, :3].copy(), rows[:, 3:].copy()
        self._over = min(max(self.FADE_END_AGE * mean, self.MIN_FADE_END_AGE), timeout)
        self._full = min(
            max(self.FADE_START_AGE * mean, self.MIN_FADE_START_AGE), 0.75 * self._over
        )

    def advance(self) -> None:
        """Advance the prediction by one cycle."""
        age, full, over = (self._clock - self._came) * self._period, self._full, self._over
        lead, weight = age, 1.0
        if age > self.MAX_SAMPLE_INTERVAL:
            lead = weight = 0.0
        elif age > full:
            fade = over - full
            history = min(age - full, fade)
            lead, weight = full + history * (1.0 - 0.5 * history / fade), 1.0 - history / fade
        position, rate = self._input
        add(self._goal, multiply(self._speed, lead, position), position)
        multiply(self._speed, weight, rate)
        dot(self._own, self._state, self._next)
        add(self._next, dot(self._commanded, self._input, self._driven), self._state)
        if lead == 0.0 or not self._speed.any():
            gap = (self.position - self._goal).tolist()
            if max(map(abs, gap)) < self.REST_TOLERANCE > max(map(abs, self.velocity.tolist())):
                self.active = False
