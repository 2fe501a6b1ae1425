# SPDX-License-Identifier: Apache-2.0
"""Limiter of commanded joint positions: velocity, acceleration, jerk, and braking distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from ruckig import ControlInterface, InputParameter, Ruckig, Synchronization, Trajectory

from multipanda_py.planning.trajectory.joint_motion import has_plan, release_at_exit
from multipanda_py.planning.trajectory.trajectory import can_stop
from multipanda_py.state import ArmLimits, Matrix, Vector

Joints: TypeAlias = NDArray[np.bool_]
_MIN_SPEED = 1e-4
"""Minimum speed limit for ruckig, which finds no plan with a limit of zero [rad/s]."""
_Passed: TypeAlias = tuple[Joints, Matrix]
_CORRECTION_TIME = 0.02
"""Time in which a correction with the speed ``catch_up`` accelerates, and then brakes [s]."""
_ROUNDED_REST = 1e-12
"""Speeds [rad/s] and accelerations [rad/s^2] that are rounding errors at the end of a stop."""
_ROUNDING_FACTOR = 1.0 + 1e-6
"""Factor on the limits, so that commands exactly at a limit pass."""
_LIMIT_FRACTION = 0.98
"""Fraction of the limits for ruckig, so that differences of its plans stay within the limits."""


class MotionLimiter:
    r"""Limiter that advances a position command by one period within the joint limits.

    A desired position :math:`q_w` of a joint passes unchanged if its differences keep the limits,

    .. math::
        v = \frac{q_w - q}{T}, \quad a = \frac{v - v'}{T}, \quad j = \frac{a - a'}{T}, \qquad
        |v| \le \dot q_{max}, \; |a| \le \ddot q_{max}, \; |j| \le \dddot q_{max}.

    Here q is the last command, and :math:`v'` and :math:`a'` are its differences. The joint must
    also be able to stop within the position limits (:func:`.can_stop`). Otherwise ruckig moves the
    command towards the desired position within all limits, or the command brakes.

    Args:
        limits: Joint limits of the arm.
        period: Time between two commands, T [s].
        command: Array for positions, velocities and accelerations of the command, (3, n)
            [rad, rad/s, rad/s^2]. None to allocate it.
        fastest: Function from positions and velocities, (n,) each, to maximum speeds, (n,)
            [rad/s], for robots whose maximum speeds decrease near position limits.
        catch_up: Maximum speed of the command towards desired positions that are slower than this
            value [rad/s]. None for the speed limits of the joints.

    Attributes:
        command: Array of the command.
        limited: True if limits have changed the last desired positions or velocities.

    Thread: control.
    """

    def __init__(
        self,
        limits: ArmLimits,
        period: float,
        command: Matrix | None = None,
        fastest: Callable[[Vector, Vector], Vector] | None = None,
        catch_up: float | None = None,
    ) -> None:
        n = limits.n_joints
        self.command = np.zeros((3, n)) if command is None else command
        self.q, self.dq, self.ddq = self.command
        self.limited = False
        self._limits, self._period, self._fastest = limits, period, fastest
        self._catch_up = catch_up
        # First and second differences of the last command, divided by the period.
        self._rate, self._change = np.zeros(n), np.zeros(n)
        self._last = self.q.copy()
        self._desired = self.q.copy()
        self._age = 1  # Number of periods since the last desired positions.
        bounds = (limits.velocity, limits.acceleration, limits.jerk)
        self._velocity, self._acceleration, self._jerk = (_ROUNDING_FACTOR * b for b in bounds)
        self._catch = 0.25 * limits.jerk * period**2
        self._max = _LIMIT_FRACTION * limits.velocity
        self._braking = _LIMIT_FRACTION * limits.acceleration, _LIMIT_FRACTION * limits.jerk
        self._ruckig, self._plan = Ruckig(n), Trajectory(n)
        self._ruckig_input = self._input(ControlInterface.Position)
        self._stop = self._input(ControlInterface.Velocity)
        release_at_exit(self, ("_ruckig", "_plan", "_ruckig_input", "_stop"))
        # The first calls are slow, so they are made before the loop runs.
        for step in (self.follow, self.follow_rate):
            step(self.q + 0.1)
        self.start(self.q)

    def _input(self, interface: ControlInterface) -> InputParameter:
        limits = self._limits
        desired = InputParameter(limits.n_joints)
        desired.control_interface = interface
        desired.synchronization = Synchronization.No
        desired.target_position = [0.0] * limits.n_joints
        desired.max_velocity = (_LIMIT_FRACTION * limits.velocity).tolist()
        desired.max_acceleration = (_LIMIT_FRACTION * limits.acceleration).tolist()
        desired.max_jerk = (_LIMIT_FRACTION * limits.jerk).tolist()
        return desired

    def start(self, q: Vector, dq: Vector | None = None, ddq: Vector | None = None) -> None:
        """Start at a command that was executed already.

        Args:
            q: Positions, (n,) [rad].
            dq: Difference from the previous command, divided by the period, (n,) [rad/s]; 0 by
                default.
            ddq: Difference of dq from the previous one, divided by the period, (n,) [rad/s^2]; 0
                by default.
        """
        self._start(q, dq, ddq)
        self._desired[:] = q
        self._age = 1

    def correct(self, q: Vector, dq: Vector, ddq: Vector) -> None:
        """Replace the last command by the executed one, but keep the last desired positions.

        Args:
            q: Positions, (n,) [rad].
            dq: Difference from the previous command, divided by the period, (n,) [rad/s].
            ddq: Difference of dq from the previous one, divided by the period, (n,) [rad/s^2].
        """
        self._start(q, dq, ddq)

    def _start(self, q: Vector, dq: Vector | None, ddq: Vector | None) -> None:
        self.q[:] = q
        self._rate[:] = 0.0 if dq is None else dq
        self._change[:] = 0.0 if ddq is None else ddq
        self.dq[:] = self._rate + 0.5 * self._period * self._change
        self.ddq[:] = self._change
        self._last[:] = q
        self.limited = False

    @property
    def is_untouched(self) -> bool:
        """True if ``command`` still contains the positions of the last step."""
        return bool((self._last == self.q).all())

    @property
    def at_rest(self) -> bool:
        """True if velocity and acceleration of the command are zero."""
        return not (self.dq.any() or self.ddq.any())

    def follow(self, desired: Vector) -> None:
        """Advance the command by one period towards finite desired positions, (n,) [rad]."""
        T, rate = self._period, self._rate
        if self.at_rest and not rate.any() and (desired == self.q).all():
            self.limited = False
            self._desired[:] = desired
            self._age = 1
            return
        v = (desired - self.q) / T
        speed = (desired - self._desired) / (self._age * T)
        joins = np.abs(v - speed) <= self._catch
        passed = self._accept_within_limits(desired, v, (v - rate) / T, joins)
        if self.limited:
            self._set_command(self._step_to_positions(desired, speed), passed)
        self._desired[:] = desired
        self._age = 1

    def follow_rate(self, desired: Vector) -> None:
        """Advance the command by one period towards finite desired velocities, (n,) [rad/s]."""
        T, bound = self._period, self._limits.velocity
        v = np.minimum(np.maximum(desired, -bound), bound)
        passed = self._accept_within_limits(self.q + T * v, v, (v - self._rate) / T, True)
        if self.limited:
            self._set_command(
                self._step_to_velocities(np.minimum(np.maximum(v, -self._max), self._max)), passed
            )

    def brake(self) -> None:
        """Advance the command by one period along the shortest stop."""
        self.limited = False
        self._age += 1
        if self.at_rest:
            self._rate[:] = self._change[:] = 0.0
            return
        self._set_command(self._braking_step(), None)
        if np.abs(self.command[1:]).max() < _ROUNDED_REST:
            self.command[1:] = 0.0

    def _accept_within_limits(
        self, q: Vector, v: Vector, a: Vector, may_move: bool | Joints
    ) -> _Passed:
        """Return a mask of accepted joints, (n,), and their q, dq and ddq, (3, n)."""
        # v and a are differences of q. ``may_move`` excludes joints whose v is far from the
        # velocity of the desired positions, which would cause overshoot.
        T = self._period
        motion = np.array((q, v + 0.5 * T * a, a))
        may = self._can_stop_after(motion) & may_move
        may &= np.abs(v) <= self._velocity
        may &= np.abs(a) <= self._acceleration
        may &= np.abs(a - self._change) <= self._jerk * T
        self.limited = not may.all()
        if not self.limited:
            self._rate[:], self._change[:] = v, a
            self.command[:] = motion
            self._last[:] = q
        return may, motion

    def _can_stop_after(self, motion: Matrix) -> Joints:
        limits, (q, dq, ddq) = self._limits, motion
        # Speed after ddq has been reduced to zero at maximum jerk. It must keep the limits, too.
        after = np.abs(dq + ddq * np.abs(ddq) / (2.0 * limits.jerk))
        lower, upper = np.minimum(limits.lower, self.q), np.maximum(limits.upper, self.q)
        result = can_stop(q, dq, ddq, lower, upper, *self._braking)
        if self._fastest is not None:
            result &= after <= self._fastest(q, dq)
        return np.asarray(result & (after <= self._velocity))

    def _step_to_positions(self, desired: Vector, speed: Vector) -> Matrix:
        """Return q, dq and ddq after one period, (3, n)."""
        limits, ruckig_input, T, max_value = (
            self._limits,
            self._ruckig_input,
            self._period,
            self._max,
        )
        if self._catch_up is not None:
            max_value = self._set_approach_limits(self._catch_up, speed)
        # The plan is relative to the desired positions, and ends at rest relative to them.
        moving = np.abs(speed) <= 0.9 * max_value
        moving &= self._can_stop_after(np.array((desired, speed, 0.0 * speed)))
        speed *= moving
        goal = np.minimum(np.maximum(desired, limits.lower), limits.upper)
        # ``goal`` is the goal at the end of the period. At the start it was T * speed less.
        ruckig_input.current_position = (self.q - goal + T * speed).tolist()
        ruckig_input.current_velocity = (self.dq - speed).tolist()
        ruckig_input.current_acceleration = self.ddq.tolist()
        up = down = max_value
        if self._fastest is not None:
            # Ruckig needs constant maximum speeds, so it gets those at the present position.
            up = np.minimum(max_value, self._fastest(self.q, self.dq.clip(min=_MIN_SPEED)))
            down = np.minimum(max_value, self._fastest(self.q, self.dq.clip(max=-_MIN_SPEED)))
        ruckig_input.max_velocity = np.maximum(up - speed, _MIN_SPEED).tolist()
        ruckig_input.min_velocity = np.minimum(-down - speed, -_MIN_SPEED).tolist()
        if not self._has_plan(ruckig_input):
            return self._braking_step()
        q, dq, ddq = map(np.array, self._plan.at_time(T))
        return self._brake_where_needed(np.array((q + goal, dq + speed, ddq)))

    def _set_approach_limits(self, catch_up: float, speed: Vector) -> Vector:
        """Return the maximum speeds of the approach, (n,) [rad/s]."""
        limits, ruckig_input = self._limits, self._ruckig_input
        acceleration = np.maximum(np.abs(self.dq), catch_up) / _CORRECTION_TIME
        acceleration = np.minimum(acceleration, _LIMIT_FRACTION * limits.acceleration)
        # While commands are lost, a robot continues with the last acceleration, and would
        # overshoot with a high one.
        is_still = np.abs(speed) <= catch_up
        acceleration = np.where(is_still, acceleration, _LIMIT_FRACTION * limits.acceleration)
        jerk = np.where(
            is_still, 4.0 * acceleration / _CORRECTION_TIME, _LIMIT_FRACTION * limits.jerk
        )
        ruckig_input.max_acceleration = acceleration.tolist()
        ruckig_input.max_jerk = np.minimum(jerk, _LIMIT_FRACTION * limits.jerk).tolist()
        return np.minimum(self._max, np.maximum(np.abs(speed), catch_up))

    def _step_to_velocities(self, rate: Vector) -> Matrix:
        result = self._to_rate(rate)
        return self._braking_step() if result is None else self._brake_where_needed(result)

    def _brake_where_needed(self, motion: Matrix) -> Matrix:
        may = self._can_stop_after(motion)
        return motion if may.all() else np.where(may, motion, self._braking_step())

    def _braking_step(self) -> Matrix:
        result = self._to_rate(np.zeros_like(self.q))
        if result is not None:
            return result
        # If ruckig finds no plan, the arm brakes with full acceleration and without a jerk limit.
        max_value = self._limits.acceleration * self._period
        v = self._rate - np.clip(self._rate, -max_value, max_value)
        return np.array((self.q + self._period * v, v, 0.0 * v))

    def _to_rate(self, rate: Vector) -> Matrix | None:
        plan = self._stop
        plan.current_position = self.q.tolist()
        plan.current_velocity = self.dq.tolist()
        plan.current_acceleration = self.ddq.tolist()
        plan.target_velocity = rate.tolist()
        return np.array(self._plan.at_time(self._period)) if self._has_plan(plan) else None

    def _has_plan(self, desired: InputParameter) -> bool:
        return has_plan(self._ruckig, desired, self._plan)

    def _set_command(self, motion: Matrix, passed: _Passed | None) -> None:
        if passed is not None:
            motion = np.where(*passed, motion)
        v = (motion[0] - self.q) / self._period
        self._change[:] = (v - self._rate) / self._period
        self._rate[:] = v
        self.command[:] = motion
        self._last[:] = self.q
