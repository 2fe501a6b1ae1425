# SPDX-License-Identifier: Apache-2.0
"""Reference governor of joint targets: speed within torque, torque-rate and joint limits."""

from __future__ import annotations

import math
import operator

import numpy as np
from numpy import dot

from multipanda_py.control.reference.governor_base import (
    CONFIGURATION_BOUND_FRACTION,
    HELD_SPEED_RATIO,
    MIN_HELD_ANGLE,
    GovernorParams,
    ReferenceGovernor,
    feasible_fractions,
)
from multipanda_py.control.reference.held_reference import REPORT_DELAY
from multipanda_py.control.reference.target_estimation import GoalPredictor
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.state import ArmLimits, ArmState, Vector
from multipanda_py.targets import JointTarget

CLOSING_RATE = 25.0
"""Rate that converts the gap to a streamed goal into a velocity change [1/s]."""
JUMP_START_GAP, JUMP_END_GAP = 0.02, 0.001
"""Gaps to a streamed goal at which a jump starts and ends [rad]."""
MIN_SMOOTHING_DISTANCE = 0.02
"""Minimum distance for the choice of the averaging time, because streams start small [rad]."""
LIMIT_MARGIN = 0.003
"""Distance from a joint limit at which the prediction of a stream ends [rad]."""
STOPPING_FRACTION, STOPPING_RATE = 0.5, 12.0
"""Deceleration before a joint limit, as a fraction of the acceleration bound, and rate at which
the last part of the distance decays [1/s]."""
CATCH_UP_SPEED_RATIO = 1.3
"""Speed at which the reference catches up with a fast stream, in units of the stream's speed."""


class JointGovernor(ReferenceGovernor):
    """Governor of the joint target of one arm, or of its desired nullspace configuration.

    All joints move together on a straight line from rest. The accelerations satisfy::

        sum_i (ddq_i / (s a_i))^2 <= 1

    - ddq_i: Acceleration of joint i [rad/s^2].
    - a_i: Acceleration bound of joint i [rad/s^2].
    - s: Fraction that the torque limits allow. The torque of joint i is up to s times the norm of
      row i of M diag(a).
    - M: Inertia matrix, (n, n) [kg m^2].

    *Leash.* A motion changes the distance of the reference from the measured positions by at most
    the leash (``JointSpring.leash``). If an arm at rest is pushed away by more than the leash, the
    reference moves with the arm and returns to the target afterwards.

    *Stream.* The reference follows the prediction of a stream by ``GoalPredictor``, with
    acceleration bounds up to twice as high as after a jump. If a stream ends in motion, the arm
    overshoots the last target until it has braked. It does not pass a joint limit.

    Args:
        record: Array of target positions (n) [rad] and velocities (n) [rad/s], which the governor
            overwrites with the reference.
        state: State of the arm.
        target: Target of a joint controllet, which contains the leash and receives the reference
            acceleration; None for a nullspace configuration, which has neither.
        place: Index of the arm in the target.
    """

    def __init__(
        self, record: Vector, state: ArmState, target: JointTarget | None = None, place: int = 0
    ) -> None:
        super().__init__(record)
        self._target, self._arm_index = target, place
        self._leash = None if target is None else target.max_reference_lead[place]
        self._n = n = len(record) // 2
        self._ahead = [0.0] * n
        self._seeded = np.zeros(n)
        self._state = state
        self._weighed: tuple[GovernorParams, ArmLimits] | None = None
        self._q, self._dq = record[:n], record[n:]
        self._tracker = TrajectoryGenerator(n)
        self._trackers = (self._tracker,)
        self._weight = [1.0] * n
        self._point, self._goal = [0.0] * n, [0.0] * n
        self._rate: list[float] | None = None
        self._predictor: GoalPredictor | None = None
        self._catching_up = False
        self._is_tied = False

    def _steps(self, before: Vector) -> list[float]:
        # Divided by the weights, all joints have the same acceleration bound.
        now, then, n = self._record.tolist(), before.tolist(), self._n
        return [math.hypot(*[(a - b) / w for a, b, w in zip(now[:n], then[:n], self._weight)])]

    @property
    def may_move(self) -> bool:
        """True if the reference may move, or if it may have to follow an arm that is pushed."""
        return self._leash is not None or super().may_move

    def forget(self) -> None:
        self._tracker.moving = False

    def set_bounds(self, params: GovernorParams) -> None:
        """Set the bounds of the reference from parameters and the robot's limits."""
        limits = self._state.limits
        if self._weighed is None or self._weighed != (params, limits):
            self._update_weights(params, limits)
        self._jump_acceleration = self._base_acceleration
        self._tracker.set_bounds(self._base_acceleration, self._max_speed)

    def _update_weights(self, params: GovernorParams, limits: ArmLimits) -> None:
        self._params, self._weighed = params, (params, limits)
        self._max_acceleration = params.joint_acceleration_scaling * limits.acceleration
        self._base_acceleration = float(self._max_acceleration.min())
        weight = self._max_acceleration / self._base_acceleration
        self._weight, self._scales = weight.tolist(), weight
        self._range = (
            (limits.lower + LIMIT_MARGIN) / weight,
            (limits.upper - LIMIT_MARGIN) / weight,
        )
        self._stopping_deceleration = STOPPING_FRACTION * self._base_acceleration
        self._stream_acceleration = np.minimum(2.0 * self._max_acceleration, limits.acceleration)
        self._max_speed = params.joint_velocity_scaling * float((limits.velocity / weight).min())

    def _start(self, cycles: int, period: float, min_speed: float) -> None:
        np.subtract(self._q, self._state.q, self._seeded)
        self._ahead = self._seeded.tolist()
        weight, tracker, q = self._weight, self._tracker, self._q.tolist()
        speed = [v / w for v, w in zip(self._state.dq.tolist(), weight)]
        size = math.hypot(*speed)
        if size < min_speed:
            speed, size = [0.0] * self._n, 0.0
        tracker.start(speed, cycles, period)
        if self._target is not None:
            self._predictor = GoalPredictor(self._n, period)
        self._point = [x / w + e for x, w, e in zip(q, weight, tracker.lag)]
        self.busy = tracker.moving
        if self.busy:
            self.update_bounds()
            braking = 0.5 * size / tracker.acceleration_limit + period
            limits = self._state.limits
            end = [(p + v * braking) * w for p, v, w in zip(self._point, speed, weight)]
            self._q[:] = np.clip(end, limits.lower, limits.upper)
        self._goal = [x / w for x, w in zip(self._q.tolist(), weight)]
        self._rate = None

    def target_changed(self) -> bool:
        if self._predictor is not None:
            self._predictor.tick()
        return super().target_changed()

    def check(self) -> None:
        """Start to move a reference at rest if the arm was pushed away by more than the leash."""
        if self._leash is None or self.busy:
            return
        ahead = np.multiply(self._point, self._weight) - self._state.q
        if (np.abs(ahead - self._seeded) > self._leash[1]).any():
            self._seeded[:] = 0.0
            self._ahead = [0.0] * self._n
            self._tracker.resume()
            self.busy = True

    def set_goal(self) -> None:
        weight = self._weight
        self._goal = [x / w for x, w in zip(self._q.tolist(), weight)]
        self._rate = None
        if self._goal_rate is not None:
            self._rate = [v / w for v, w in zip(self._goal_rate.tolist(), weight)]
        if self._predictor is not None and self._came:
            hold = self._params.rate_timeout
            self._predictor.sample(self._goal, self._rate, self._base_acceleration, hold)
        if not self.busy and self._leash is not None:
            ahead = np.multiply(self._point, weight) - self._state.q
            longest = np.maximum(self._leash[1], np.abs(self._seeded))
            self._ahead = np.clip(ahead, -longest, longest).tolist()
        self._tracker.resume()
        self.busy = True

    def update_bounds(self) -> None:
        row = self._state.mass_matrix * self._max_acceleration
        tau = np.sqrt((row * row).sum(axis=1))
        p = self._params
        possible = feasible_fractions(tau, np.zeros(self._n), self._state, p.limit_scale)
        if self._is_still:
            distance = (
                max(math.dist(self._goal, self._point), MIN_SMOOTHING_DISTANCE)
                / self._base_acceleration
            )
            self._smooth(
                possible.smoothing(
                    p.smoothing, distance, self._max_speed / self._base_acceleration
                )
            )
        fraction = possible.acceleration_fraction(self._averaged)
        self._possible = fraction
        self.is_limited = fraction < CONFIGURATION_BOUND_FRACTION
        self._jump_acceleration = self._base_acceleration * fraction
        self._tracker.set_bounds(self._jump_acceleration, self._max_speed)

    def _update_speed_cap(self, gap: list[float], rate: list[float] | None) -> None:
        (own,), contact = self.caps, self.contact
        is_on = contact is not None and contact.is_on
        self._is_bounded, max_value = is_on or own.acts, math.inf
        size = math.hypot(*gap)
        if is_on and size > 0.0:
            unit = np.multiply(gap, self._weight) / size
            twist = self._state.jacobian.dot(unit).tolist()
            speed, angular_speed = math.hypot(*twist[:3]), math.hypot(*twist[3:])
            p = self._params
            max_value = min(
                p.contact_linear_speed / max(speed, 1e-9),
                p.contact_angular_speed / max(angular_speed, 1e-9),
            )
        tool_speed = 0.0 if rate is None else math.hypot(*rate)
        self._tracker.set_cap(own.speed(size, self.cycle, max_value, tool_speed))

    def _max_gap(self) -> float:
        gaps = zip(self._goal, self._point, self._weight)
        return max([abs(g - p) * w for g, p, w in gaps])

    def _is_held(self) -> bool:
        tracker, contact = self._tracker, self.contact
        is_bounded = contact is not None and contact.is_on
        if self._target is None or not (
            self._is_slowed
            or self._is_tied
            or is_bounded
            or self._possible < CONFIGURATION_BOUND_FRACTION
        ):
            return False
        gap = self._max_gap()
        speed = max([abs(r) * w for r, w in zip(tracker.output_velocity, self._weight)])
        if gap > MIN_HELD_ANGLE and speed < HELD_SPEED_RATIO * gap:
            return (
                self._is_slowed or self._is_tied or self._possible < CONFIGURATION_BOUND_FRACTION
            )
        size = math.hypot(*tracker.output_velocity)
        return (
            is_bounded
            and gap > max(MIN_HELD_ANGLE, REPORT_DELAY * speed)
            and size > 0.9 * tracker.cap
        )

    def _reason(self) -> str:
        if self._is_tied:
            words = (
                "the arm does not follow, which keeps the reference near the measured positions"
            )
        elif self._is_slowed:
            words = self._blocked_by() or "a feature slows the reference down"
        elif self.contact is not None and self.contact.is_on:
            words = (
                "the tool is in contact, which limits the reference speed "
                "(governor.contact_linear_speed, governor.contact_angular_speed)"
            )
        else:
            words = "torque limits in this configuration allow no faster motion"
        return f"{words}. The target is {self._max_gap():.2f} rad ahead of the reference."

    def advance(self, period: float) -> None:
        tracker, goal, weight, rate = self._tracker, self._goal, self._weight, self._rate
        predictor = self._predictor
        if predictor is not None and predictor.active:
            predictor.advance()
            if predictor.active:
                goal, rate = self._goal_within_limits(predictor)
        gap = [g - p for g, p in zip(goal, self._point)]
        if rate is not None and goal is not self._goal:
            self._set_stream_bounds(gap, rate)
        self._is_tied = False
        if self._is_bounded or (self.contact is not None and self.contact.is_on):
            self._update_speed_cap(gap, rate)
        is_paced = self._target is not None and self.is_paced
        if is_paced:
            before = [p - e for p, e in zip(self._point, tracker.lag)]
        if tracker.step(gap, rate, period):
            self._point = point = goal
        else:
            self._point = point = [p + v * period for p, v in zip(self._point, tracker.speed)]
        if is_paced and tracker.moving:
            ahead = np.multiply(before, weight) - self._state.q
            moving = np.multiply(tracker.output_velocity, weight)
            scale = self._velocity_scale(self._arm_index, moving, ahead)
            if scale < 1.0:
                self._is_slowed = True
                self._mark_held()
                tracker.scale_velocity(scale)
                tracker.resume()
                rates = zip(before, tracker.output_velocity, tracker.lag)
                self._point = point = [p + r * period + e for p, r, e in rates]
        if tracker.moving:
            q = [(p - e) * w for p, e, w in zip(point, tracker.lag, weight)]
            if self._leash is not None and self._clip_to_leash(q):
                self._point = [x / w for x, w in zip(q, weight)]
                tracker.stop_and_resume()
                self._is_tied = True
                self._mark_held()
            self._q[:] = q
            self._dq[:] = [r * w for r, w in zip(tracker.output_velocity, weight)]
            if self._target is not None:
                self._target.ddq[self._arm_index][:] = [
                    a * w for a, w in zip(tracker.acceleration, weight)
                ]
        else:  # The reference has arrived. The record already contains the goal.
            self._dq[:] = 0.0
            # Overwrite the velocities of a target in later cycles too.
            self.busy = self._target_has_velocity()
        if self._target is not None:
            self._target.moving[self._arm_index] = tracker.moving

    def _goal_within_limits(self, predictor: GoalPredictor) -> tuple[list[float], list[float]]:
        # The range ends at a margin before the joint limits. A commanded goal may be beyond it.
        low = np.minimum(self._range[0], self._goal)
        high = np.maximum(self._range[1], self._goal)
        goal = np.minimum(np.maximum(predictor.position, low), high)
        slowest, fastest = (
            -self._max_stoppable_speed(goal - low),
            self._max_stoppable_speed(high - goal),
        )
        rate = np.minimum(np.maximum(predictor.velocity, slowest), fastest)
        return goal.tolist(), rate.tolist()

    def _max_stoppable_speed(self, distance: Vector) -> Vector:
        ends: Vector = np.minimum(
            np.sqrt(2.0 * self._stopping_deceleration * distance), STOPPING_RATE * distance
        )
        return ends

    def _set_stream_bounds(self, gap: list[float], rate: list[float]) -> None:
        # ``gap`` and ``rate`` are divided by ``_weight``.
        tracker, limits, p = self._tracker, self._state.limits, self._params
        behind = [r - v for r, v in zip(rate, tracker.speed)]
        size, scales = math.hypot(*rate), self._scales
        fast = float(np.abs(np.multiply(rate, scales) / limits.velocity).max())
        fastest = max(
            self._max_speed,
            size * min(p.joint_velocity_scaling / max(fast, 1e-9), CATCH_UP_SPEED_RATIO),
        )
        if self._is_catching_up(gap):
            tracker.bound(self._jump_acceleration, fastest)
            return
        change = [CLOSING_RATE * g + b for g, b in zip(gap, behind)]
        direction = np.multiply(change, scales) / max(math.hypot(*change), 1e-9)
        used = float(np.abs(direction / self._stream_acceleration).max())
        bound = np.minimum(limits.torque, 0.5 * self._averaged * limits.torque_rate)
        used = max(
            used,
            float(np.abs(dot(self._state.mass_matrix, direction) / bound).max()) / p.limit_scale,
        )
        tracker.bound(1.0 / used if used > 0.0 else self._base_acceleration, fastest)

    def _is_catching_up(self, gap: list[float]) -> bool:
        size = math.hypot(*gap)
        if size > JUMP_START_GAP:
            self._catching_up = sum(map(operator.mul, gap, self._tracker.speed)) >= 0.0
        elif size < JUMP_END_GAP:
            self._catching_up = False
        return self._catching_up

    def _clip_to_leash(self, q: list[float]) -> bool:
        tied = False
        leash, measured = self._leash[0].tolist(), self._state.q.tolist()  # type: ignore[index]
        for joint, (x, at, ahead, length) in enumerate(zip(q, measured, self._ahead, leash)):
            gap = x - at - ahead
            if gap > length or gap < -length:
                q[joint] = at + ahead + math.copysign(length, gap)
                tied = True
        return tied

    def _target_has_velocity(self) -> bool:
        return any(self._last_record[8 * self._n :])
