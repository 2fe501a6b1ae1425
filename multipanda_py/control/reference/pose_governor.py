# SPDX-License-Identifier: Apache-2.0
"""Reference governor of a target pose: speed within torque, torque-rate and joint limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import numpy as np
import pinocchio as pin

from multipanda_py.control.impedance.limit_scaling import DAMPING_START
from multipanda_py.control.impedance.pose_error import difference, scaled, weighed
from multipanda_py.control.reference.governor_base import (
    CONFIGURATION_BOUND_FRACTION,
    HELD_SPEED_RATIO,
    MIN_HELD_ANGLE,
    MIN_HELD_DISTANCE,
    FeasibleFractions,
    GovernorParams,
    ReferenceGovernor,
    feasible_fractions,
)
from multipanda_py.control.reference.held_reference import REPORT_DELAY
from multipanda_py.control.reference.target_estimation import ReferenceFeedForward
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import ReferenceMotion

_dot, _exp3, _log3, _subtract = np.dot, pin.exp3, pin.log3, np.subtract
_pack = Struct("3d").pack_into
_TINY = 1e-12
MIN_SMOOTHING_DISTANCE, MIN_SMOOTHING_ANGLE = 0.01, 0.02
"""Minimum distances for the choice of the averaging time, because streams start small [m],
[rad]."""
MIN_BOUND_FRACTION = 0.02
"""Minimum fraction of a bound for the shorter of two motions that end together."""


def _start_tracker(
    tracker: TrajectoryGenerator, speed: list[float], cycles: int, period: float, min_speed: float
) -> list[float] | None:
    """Start a generator, and return its displacement until it stops, (3,) [unit]; None at rest."""
    size = math.hypot(*speed)
    if size < min_speed:
        speed, size = [0.0] * 3, 0.0
    tracker.start(speed, cycles, period)
    if not tracker.moving:
        return None
    braking = 0.5 * size / tracker.acceleration_limit + period
    return [v * braking for v in speed]


class PoseGovernor(ReferenceGovernor):
    """Governor of the target pose of a tool. A subclass governs the pose of an object.

    Two instances of ``TrajectoryGenerator`` move position and orientation, which arrive together.
    The orientation R moves to its goal R_g along log(R_g R^T). The reference rotation R_r lags
    behind R::

        R_r = exp(-e) R

    - e: Rotation from R_r to R, which is ``TrajectoryGenerator.lag``, (3,) [rad].

    Args:
        record: Array of target position (3) [m] and rotation matrix (9), which the governor
            overwrites with the reference.
        motion: Velocity and acceleration feed-forward for the controllet, an output; None without
            feed-forward.
        state: State of the arm.
        place: Index of the arm in the controllet.
    """

    def __init__(
        self, record: Vector, motion: ReferenceMotion | None, state: ArmState, place: int = 0
    ) -> None:
        super().__init__(record)
        self._state, self._arm_index = state, place
        self._feedforward = None if motion is None else ReferenceFeedForward(motion)
        self._was_slowed = False
        self._position, self._rotation = record[:3], record[3:].reshape(3, 3)
        self._linear, self._angular = self._trackers = (
            TrajectoryGenerator(3),
            TrajectoryGenerator(3),
        )
        self._point, self._frame, self._turned = [0.0] * 3, np.eye(3), np.zeros((3, 3))
        self._goal_point, self._goal_frame = [0.0] * 3, np.eye(3)
        self._linear_rate: list[float] | None = None
        self._angular_rate: list[float] | None = None

    def _steps(self, before: Vector) -> tuple[float, float]:
        now, then = self._record.tolist(), before.tolist()
        chord = math.dist(now[3:], then[3:])
        return math.dist(now[:3], then[:3]), math.sqrt(0.5) * chord

    def forget(self) -> None:
        self._linear.moving = self._angular.moving = False

    def set_bounds(self, params: GovernorParams) -> None:
        self._params = p = params
        self._scale_bounds(
            (p.linear_acceleration, p.linear_speed),
            (p.angular_acceleration, p.angular_speed),
            1.0,
            1.0,
        )

    def _measured_twist(self) -> Vector:
        return self._state.twist_ee_in_base

    def _start(self, cycles: int, period: float, min_speed: float) -> None:
        twist = self._measured_twist().tolist()
        self._point, self._frame = self._position.tolist(), self._rotation.copy()
        displacement = _start_tracker(self._linear, twist[:3], cycles, period, min_speed)
        if displacement is not None:
            self._point = [p + e for p, e in zip(self._point, self._linear.lag)]
            self._position[:] = [p + e for p, e in zip(self._point, displacement)]
        displacement = _start_tracker(self._angular, twist[3:], cycles, period, min_speed)
        if displacement is not None:
            self._frame = _dot(_exp3(np.array(self._angular.lag)), self._rotation)
            self._rotation[:] = _dot(_exp3(np.array(displacement)), self._frame)
        self.busy = self._linear.moving or self._angular.moving
        self._keep_goal()
        self._linear_rate = self._angular_rate = None
        self._was_slowed = False
        if self._feedforward is not None:
            self._feedforward.start(period)

    def _keep_goal(self) -> None:
        self._goal_point, self._goal_frame = self._position.tolist(), self._rotation.copy()

    def target_changed(self) -> bool:
        if self._feedforward is not None:
            self._feedforward.advance()
        return super().target_changed()

    @property
    def may_move(self) -> bool:
        """True if the reference may move, or if its goal has moved recently."""
        return super().may_move or (
            self._feedforward is not None and self._feedforward.has_history
        )

    def set_goal(self) -> None:
        point, frame = self._goal_point, self._goal_frame
        had_angular_rate = self._angular_rate is not None
        self._keep_goal()
        is_turned = self._goal_frame.tobytes() != frame.tobytes()
        if self._feedforward is not None:
            angle = 0.0
            if is_turned:
                rotation_change = _subtract(self._goal_frame, frame).ravel()
                # The Frobenius norm divided by sqrt(2) is 2 sin(angle / 2). For the small steps
                # of a stream, this is approximately the angle.
                angle = math.sqrt(0.5 * rotation_change.dot(rotation_change))
            self._feedforward.step(math.dist(self._goal_point, point), angle)
        rate = None if self._goal_rate is None else self._goal_rate.tolist()
        self._linear_rate = None if rate is None else rate[:3]
        self._angular_rate = None if rate is None else rate[3:]
        self._linear.resume()
        if is_turned or had_angular_rate or rate is not None:
            self._angular.resume()
        self.busy = True

    @property
    def _streams(self) -> bool:
        return any(cap.streams(self.cycle) for cap in self.caps)

    @property
    def _is_direct(self) -> bool:
        # True for full feed-forward after a jump of the goal: not for a streamed goal, and not
        # after a feature has slowed the motion.
        if self.response != "direct" or self._feedforward is None or self._was_slowed:
            return False
        return not self._streams

    def update_bounds(self) -> None:
        """Set the bounds of acceleration and speed to what the arms can follow to the goal.

            dds <= 1 / max(d / a_p, theta / a_r)
            ds  <= 1 / max(d / v_p, theta / v_r)

        - s: Path coordinate from 0 to 1; ds, dds: its derivatives [1/s, 1/s^2].
        - d, theta: Distance [m] and angle [rad] to the goal.
        - a_p, a_r: Bounds of linear [m/s^2] and angular acceleration [rad/s^2].
        - v_p, v_r: Bounds of linear [m/s] and angular speed [rad/s].
        """
        p, displacement = self._params, np.empty(6)
        displacement[:3] = np.subtract(self._goal_point, self._point)
        displacement[3:] = _log3(_dot(self._goal_frame, self._frame.T))
        distance, angle = _part_norms(displacement.tolist())
        hard = max(distance / p.linear_acceleration, angle / p.angular_acceleration, _TINY)
        fast = max(distance / p.linear_speed, angle / p.angular_speed, _TINY)
        linear, angular = (distance / hard, distance / fast), (angle / hard, angle / fast)
        if self._streams:
            linear, angular = (
                (p.linear_acceleration, p.linear_speed),
                (p.angular_acceleration, p.angular_speed),
            )
        unit = displacement / np.repeat((max(distance, _TINY), max(angle, _TINY)), 3)
        full, quick = (np.repeat(pair, 3) for pair in zip(linear, angular))
        possible = self._feasible_fractions(unit * full, unit * quick)
        # Full feed-forward fades out above the fraction ``DAMPING_START`` of the joint speed
        # limits, so the reference stays below it.
        if self._is_direct:
            possible = possible.slower(DAMPING_START / p.limit_scale)
        if self._is_still:
            hard = max(
                hard,
                MIN_SMOOTHING_DISTANCE / p.linear_acceleration,
                MIN_SMOOTHING_ANGLE / p.angular_acceleration,
            )
            speed = hard / fast * possible.speed_fraction()
            self._smooth(possible.smoothing(p.smoothing, hard, speed))
        self._scale_bounds(
            linear,
            angular,
            possible.acceleration_fraction(self._averaged),
            possible.speed_fraction(),
        )

    def _scale_bounds(
        self,
        linear: tuple[float, float],
        angular: tuple[float, float],
        harder: float,
        faster: float,
    ) -> None:
        p = self._params
        self._possible = min(harder, faster)
        self.is_limited = self._possible < CONFIGURATION_BOUND_FRACTION
        self._linear.set_bounds(
            max(linear[0], MIN_BOUND_FRACTION * p.linear_acceleration) * harder,
            max(linear[1], MIN_BOUND_FRACTION * p.linear_speed) * faster,
        )
        self._angular.set_bounds(
            max(angular[0], MIN_BOUND_FRACTION * p.angular_acceleration) * harder,
            max(angular[1], MIN_BOUND_FRACTION * p.angular_speed) * faster,
        )

    def _feasible_fractions(self, acceleration: Vector, twist: Vector) -> FeasibleFractions:
        return tool_scales(self._state, acceleration, twist, self._params.limit_scale)

    def advance(self, period: float) -> None:
        """Advance the reference by one cycle, and replace the target by it."""
        linear, angular = self._linear, self._angular
        is_paced = False
        if self._is_bounded or (self.contact is not None and self.contact.is_on):
            self._update_speed_caps()
        if self.pacers:
            before = difference(self._point, linear.lag)
            self._announce_reference(*self._path_ahead(before))
            is_paced = self.is_paced
        if is_paced:
            turned = _dot(_exp3(np.array(scaled(angular.lag, -1.0))), self._frame)
        if linear.moving:
            gap = difference(self._goal_point, self._point)
            if linear.step(gap, self._linear_rate, period):
                self._point = self._goal_point
            else:
                self._point = weighed(linear.speed, period, self._point, 1.0)
        if angular.moving:
            self._advance_rotation(period)
        if is_paced:
            self._hold_back(before, turned, period)
        if linear.moving:
            _pack(self._position.data, 0, *difference(self._point, linear.lag))
        if angular.moving:
            _exp3(np.array(scaled(angular.lag, -1.0))).dot(self._frame, self._rotation)
        if self._feedforward is not None:
            is_direct = self.response == "direct" and self._is_direct
            self._feedforward.write(linear, angular, self._goal_rate, is_direct)
        self.busy = linear.moving or angular.moving
        if not self.busy:
            self._was_slowed = False

    def _update_speed_caps(self) -> None:
        of_linear, of_angular = self.caps
        is_on = self.contact is not None and self.contact.is_on
        self._is_bounded, p = is_on or of_linear.acts or of_angular.acts, self._params
        rate = self._goal_rate
        speed, angular_speed = (0.0, 0.0) if rate is None else _part_norms(rate.tolist())
        gap, angle = self._gap()
        max_value = (
            (p.contact_linear_speed, p.contact_angular_speed) if is_on else (math.inf, math.inf)
        )
        self._linear.set_cap(of_linear.speed(gap, self.cycle, max_value[0], speed))
        self._angular.set_cap(of_angular.speed(angle, self.cycle, max_value[1], angular_speed))

    def _gap(self) -> tuple[float, float]:
        rotation_change = _subtract(self._goal_frame, self._frame).ravel()
        chord = math.sqrt(
            0.5 * rotation_change.dot(rotation_change)
        )  # The chord equals 2 sin(angle / 2).
        return math.dist(self._goal_point, self._point), 2.0 * math.asin(min(1.0, 0.5 * chord))

    def _advance_rotation(self, period: float) -> None:
        angular = self._angular
        gap = _log3(self._goal_frame.dot(self._frame.T, self._turned)).tolist()
        if angular.step(gap, self._angular_rate, period):
            self._frame = self._goal_frame
        else:
            step = _exp3(np.array(scaled(angular.speed, period)))
            self._frame = step.dot(self._frame)

    def _hold_back(self, before: list[float], turned: Matrix, period: float) -> None:
        linear, angular = self._linear, self._angular
        if not (linear.moving or angular.moving):
            return
        rate = np.array((*linear.output_velocity, *angular.output_velocity))
        scale = self._allowed_fraction(rate, before, turned)
        if scale >= 1.0:
            return
        self._is_slowed = self._was_slowed = True
        self._mark_held()
        linear.scale_velocity(scale)
        angular.scale_velocity(scale)
        rates = zip(before, linear.output_velocity, linear.lag)
        self._point = [p + r * period + e for p, r, e in rates]
        step = _exp3(np.array([r * period for r in angular.output_velocity]))
        self._frame = _dot(_exp3(np.array(angular.lag)), _dot(step, turned))
        linear.resume()
        angular.resume()

    def _is_held(self) -> bool:
        linear, angular = self._linear, self._angular
        is_bounded = self.contact is not None and self.contact.is_on
        if not (self._is_slowed or is_bounded or self._possible < CONFIGURATION_BOUND_FRACTION):
            return False
        gap, angle = self._gap()
        speed, angular_speed = (
            math.hypot(*linear.output_velocity),
            math.hypot(*angular.output_velocity),
        )
        if self._is_slowed or self._possible < CONFIGURATION_BOUND_FRACTION:
            is_far = gap > MIN_HELD_DISTANCE and speed < HELD_SPEED_RATIO * gap
            if is_far or (angle > MIN_HELD_ANGLE and angular_speed < HELD_SPEED_RATIO * angle):
                return True
        return is_bounded and (
            (gap > max(MIN_HELD_DISTANCE, REPORT_DELAY * linear.cap) and speed > 0.9 * linear.cap)
            or (
                angle > max(MIN_HELD_ANGLE, REPORT_DELAY * angular.cap)
                and angular_speed > 0.9 * angular.cap
            )
        )

    def _reason(self) -> str:
        gap, angle = self._gap()
        far = f"{1e3 * gap:.0f} mm" if gap > MIN_HELD_DISTANCE else f"{angle:.2f} rad"
        if self._is_slowed:
            words = self._blocked_by() or "a feature slows the reference down"
        elif self.contact is not None and self.contact.is_on:
            words = (
                f"the tool is in contact, which limits the reference to "
                f"{self._linear.cap:.2f} m/s and {self._angular.cap:.2f} rad/s "
                "(governor.contact_linear_speed, governor.contact_angular_speed)"
            )
        else:
            words = "torques or joint speeds in this configuration allow no faster motion"
        return f"{words}. The target is {far} ahead of the reference."

    def _path_ahead(self, position: Sequence[float]) -> tuple[float, float]:
        here = self._state.position_ee_in_base.tolist()
        return math.dist(position, here), math.hypot(*self._linear.output_velocity)

    def _allowed_fraction(
        self, twist: Vector, position: Sequence[float], rotation: Matrix
    ) -> float:
        state, ahead = self._state, np.empty(6)
        ahead[:3] = position - state.position_ee_in_base
        ahead[3:] = _log3(_dot(rotation, state.rotation_ee_in_base.T))
        return self._velocity_scale(
            self._arm_index, tool_motion(state, twist), tool_motion(state, ahead)
        )


def _part_norms(twist: Sequence[float]) -> tuple[float, float]:
    return math.hypot(*twist[:3]), math.hypot(*twist[3:])


def tool_scales(
    state: ArmState, acceleration: Vector, twist: Vector, limit_scale: float
) -> FeasibleFractions:
    """Return the fractions of a tool's acceleration and twist that an arm can follow.

    Args:
        state: State of the arm.
        acceleration: Acceleration a of the tool, (6,) [m/s^2, rad/s^2].
        twist: Twist dx of the tool, (6,) [m/s, rad/s].
        limit_scale: Usable fraction of the limits.
    """
    space = state.operational_space()
    tau = _dot(_dot(space.inertia, acceleration), state.jacobian)
    return feasible_fractions(tau, tool_motion(state, twist), state, limit_scale)


def tool_motion(state: ArmState, twist: Vector) -> Vector:
    """Return the joint velocities of minimum kinetic energy for a tool twist, (n,) [rad/s].

    Args:
        state: State of the arm.
        twist: Twist of the tool in the base, (6,) [m/s, rad/s].
    """
    space = state.operational_space()
    dq: Vector = _dot(space.minv_jt, _dot(space.inertia, twist))
    return dq
