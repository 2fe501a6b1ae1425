# SPDX-License-Identifier: Apache-2.0
"""Reference motion of the joints of one arm: along points, to a configuration, or to rest."""

from __future__ import annotations

import atexit
import math
import weakref
from collections.abc import Callable, Sequence

import numpy as np
from numpy import add, subtract
from ruckig import (
    ControlInterface,
    InputParameter,
    Ruckig,
    RuckigError,
    Synchronization,
    Trajectory,
)

from multipanda_py.planning.trajectory.quintic import (
    PEAK_CURVATURE,
    PEAK_CURVATURE_OF_RATE,
    PEAK_RATE,
    Quintic,
)
from multipanda_py.planning.trajectory.trajectory import BLEND_TIME, can_stop
from multipanda_py.state import ArmLimits, Matrix, Vector

_alive: weakref.WeakKeyDictionary[object, Sequence[str]] = weakref.WeakKeyDictionary()


def release_at_exit(owner: object, names: Sequence[str]) -> None:
    """Register attributes with ruckig objects for deletion before the interpreter exits.

    Args:
        owner: Object with these attributes.
        names: Names of the attributes.
    """
    _alive[owner] = tuple(names)


@atexit.register
def _let_go() -> None:
    for owner, names in list(_alive.items()):
        for name in names:
            owner.__dict__.pop(name, None)


def has_plan(ruckig: Ruckig, desired: InputParameter, plan: Trajectory) -> bool:
    """Compute a trajectory with ruckig and return True if it succeeds.

    Args:
        ruckig: Trajectory generator.
        desired: Input of the generator.
        plan: Output of the generator.

    Thread: control.
    """
    try:
        return bool(ruckig.calculate(desired, plan) >= 0)
    except (RuckigError, ValueError, RuntimeError):
        return False


_RISE_TIME = 0.03
"""Minimum time from zero to full acceleration of a joint [s]. The torque rate limit needs this
time at the largest inertia. The higher jerk limit of the datasheet is for position control."""
_RESUME_TIME = 0.3
"""Time in which a paused motion returns to its full speed [s]."""
_BLEND_FRACTION = 0.5
"""Fraction of the velocity and acceleration limits with which an offset is reduced to zero."""
_NO_SYNCHRONIZATION = Synchronization.No
"""Synchronisation after a failure of ruckig, for example on paths of 1e-12 rad: each joint moves
independently."""


def _full(dq: Vector) -> float:
    return 1.0


class JointMotion:
    """Generator of the joint reference of one arm, continuous in position and velocity.

    A new motion can start at any time. The difference between the present reference and the start
    of the new path fades to zero along a quintic polynomial.

    - :meth:`follow`: quintic segments through timed points.
    - :meth:`go_to`: to rest at a configuration, by ruckig (Berscheid and Kröger, Robotics: Science
      and Systems 2021). A reference above the speed of :meth:`set_speed` stops first.
    - :meth:`stop`: to rest as fast as full acceleration and jerk allow.

    Args:
        limits: Joint limits of the arm.

    Attributes:
        q: Reference position, (n,) [rad].
        dq: Reference velocity, (n,) [rad/s].
        ddq: Reference acceleration, (n,) [rad/s^2].
        reference: Vector of ``q``, then ``dq``, as a view, (2 n,).
        goal: Final position of the present motion, (n,) [rad].
        time: Time since the start of the present motion [s].
        duration: Duration of the present motion [s].
        moving: True until the motion has ended.
        rate: Speed of the motion relative to its plan, 0 to 1.

    Thread: control.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._velocity, self._acceleration = limits.velocity, limits.acceleration
        self._jerk = np.minimum(limits.jerk, limits.acceleration / _RISE_TIME)
        self._n = n = limits.n_joints
        self._state = np.zeros(3 * n)
        self.q, self.dq, self.ddq = self._state.reshape(3, n)
        self.reference: Vector = self._state[: 2 * n]
        self.goal = np.zeros(n)
        self.time = self.duration = 0.0
        self.moving = False
        self._start_state, self._zero = np.zeros(3 * n), np.zeros(3 * n)
        self._segment, self._offset = Quintic(n), Quintic(n)
        self._offset_value, self._blend_end = np.zeros(3 * n), 0.0
        self._path_end = 0.0
        self.rate, self._own_dq = 1.0, np.zeros(n)
        self._stops_first = False
        self._lower, self._upper = limits.lower, limits.upper
        self._points: Matrix | None = None
        self._count = self._next = 0
        self._segment_start = self._segment_end = 0.0
        self._ruckig, self._plan = Ruckig(n), Trajectory(n)
        self._ruckig_input = self._input(ControlInterface.Position)
        self._brake = self._input(ControlInterface.Velocity)
        self.set_speed(1.0)
        self._warm_up()
        release_at_exit(self, ("_ruckig", "_plan", "_ruckig_input", "_brake"))

    def _input(self, interface: ControlInterface) -> InputParameter:
        desired = InputParameter(self._n)
        desired.control_interface = interface
        desired.max_velocity = self._velocity.tolist()
        desired.max_acceleration = self._acceleration.tolist()
        desired.max_jerk = self._jerk.tolist()
        desired.target_velocity = desired.target_acceleration = [0.0] * self._n
        return desired

    def _warm_up(self) -> None:
        # The first call of each function is slow.
        points = np.zeros((2, 1 + 3 * self._n))
        points[:, 0] = 0.0, 1.0
        for _ in range(3):
            self.follow(points, 2)
            self.advance(0.5)
            self.go_to(self.goal + 0.1)
            self.advance(0.01)
            self.stop()
            self.rest(self._zero[: self._n], self._zero[: self._n])

    def set_speed(self, speed: float) -> None:
        """Set the fraction of the speed limits for :meth:`go_to`, 0 < speed <= 1."""
        self._speed = self._velocity * speed
        self._braking = (self._acceleration * speed**2, self._jerk * speed**3)
        self._ruckig_input.max_velocity = self._speed.tolist()
        self._ruckig_input.max_acceleration = self._braking[0].tolist()
        self._ruckig_input.max_jerk = self._braking[1].tolist()

    def rest(self, q: Vector, dq: Vector) -> None:
        """Restart the reference at a measured state [rad, rad/s], and bring it to rest."""
        self.reset_to(q, dq)
        self.stop()

    def reset_to(self, q: Vector, dq: Vector) -> None:
        """Set the reference to a measured state [rad, rad/s], (n,) each, before a new motion."""
        self._state[:] = 0.0
        self.q[:], self.dq[:] = q, dq

    def stop(self) -> None:
        """Bring the reference to rest as fast as full acceleration and jerk allow."""
        self._plan_with_ruckig(self._brake, self._state)

    def stop_from(self, q: Vector, dq: Vector) -> None:
        """Blend into a stop that is planned from a measured state [rad, rad/s], (n,) each."""
        start = self._start_state.reshape(3, self._n)
        start[0], start[1], start[2] = q, dq, 0.0
        self._plan_with_ruckig(self._brake, self._start_state)

    def go_to(self, q: Vector) -> None:
        """Move to a configuration and come to rest there, (n,) [rad]."""
        self._ruckig_input.target_position = q.tolist()
        if (np.abs(self.dq) <= self._speed).all() and self._can_stop_within_limits():
            self._plan_with_ruckig(self._ruckig_input, self._state)
        else:
            self.stop()
            self._stops_first = True

    def _can_stop_within_limits(self) -> bool:
        # Ruckig does not check this.
        stoppable = can_stop(self.q, self.dq, self.ddq, self._lower, self._upper, *self._braking)
        return bool(stoppable.all())

    def _plan_with_ruckig(self, desired: InputParameter, start_state: Vector) -> None:
        q, dq, ddq = start_state.reshape(3, self._n).tolist()
        desired.current_position = q
        desired.current_velocity = dq
        desired.current_acceleration = ddq
        if not (
            self._finds(desired, Synchronization.Phase)
            or self._finds(desired, _NO_SYNCHRONIZATION)
        ):
            raise ArithmeticError(f"ruckig finds no trajectory from {q}")
        self._points, self._stops_first = None, False
        duration = self._plan.duration
        self.goal[:] = self._plan.at_time(duration)[0]
        self._start_path(start_state, duration)

    def _finds(self, desired: InputParameter, synchronization: Synchronization) -> bool:
        desired.synchronization = synchronization
        return has_plan(self._ruckig, desired, self._plan)

    def follow(self, points: Matrix, count: int) -> None:
        """Follow trajectory points. The array must not change until the next motion.

        Args:
            points: Times from now [s], positions, velocities and accelerations, (p, 1 + 3 n).
            count: Number of valid points, at most p.
        """
        first, start = points[0], self._start_state
        time = float(first[0])
        start[:] = self._state
        # If the first point is too early for a blend, the path is extrapolated back to time 0.
        if time < BLEND_TIME:
            q, dq, ddq = first[1:].reshape(3, self._n)
            joints = start.reshape(3, self._n)
            joints[2] = ddq
            joints[1] = dq - time * ddq
            joints[0] = q - time * dq + (0.5 * time * time) * ddq
        self._points, self._count, self._stops_first = points, count, False
        self._segment_start = self._segment_end = 0.0
        self._next = 0
        self._join_next_point(start)
        self.goal[:] = points[count - 1, 1 : 1 + self._n]
        self._start_path(start, float(points[count - 1, 0]))

    def _join_next_point(self, start_state: Vector) -> None:
        points = self._points
        while points is not None and self._next < self._count:
            end = float(points[self._next, 0])
            self._segment_start, length = self._segment_end, end - self._segment_end
            target = points[self._next, 1:]
            self._next += 1
            if length > 0.0:
                self._segment_end = end
                self._segment.join(start_state, target, length)
                return
            start_state = target

    def _start_path(self, start_state: Vector, duration: float) -> None:
        # The difference between the reference and the new path fades out.
        offset = subtract(self._state, start_state, self._offset_value)
        distance = float(np.abs(offset[: self._n]).max())
        rate = float(np.abs(offset[self._n : 2 * self._n]).max())
        self._blend_end = 0.0
        if distance > 1e-9 or rate > 1e-9:
            v = _BLEND_FRACTION * float(self._velocity.min())
            a = _BLEND_FRACTION * float(self._acceleration.min())
            self._blend_end = max(
                BLEND_TIME,
                PEAK_RATE * distance / v,
                math.sqrt(PEAK_CURVATURE * distance / a),
                PEAK_CURVATURE_OF_RATE * rate / a,
            )
            self._offset.join(offset, self._zero, self._blend_end)
        self.time, self._path_end = 0.0, duration
        self.rate, self._own_dq[:] = 1.0, self.dq
        self.duration = max(duration, self._blend_end)
        self.moving = True

    @property
    def path_dq(self) -> Vector:
        """Velocity of the reference without its reduction by ``rate``, (n,) [rad/s]."""
        return self._own_dq

    @property
    def speed_fraction(self) -> float:
        """Highest joint speed at present, as a fraction of the maximum speed of :meth:`go_to`."""
        return float((np.abs(self.dq) / self._speed).max())

    def allowed(self, pace: Callable[[Vector], float]) -> float:
        """Return the allowed fraction of the planned speed of the motion, 0 to 1; 1 at rest.

        Args:
            pace: Function from a joint velocity, (n,) [rad/s], to the allowed fraction of this
                velocity, 0 to 1.
        """
        return pace(self._own_dq) if self.moving else 1.0

    def advance(self, period: float, pace: Callable[[Vector], float] = _full) -> None:
        """Advance the reference by one cycle.

        Args:
            period: Cycle time [s].
            pace: Function from a joint velocity, (n,) [rad/s], to the allowed fraction of this
                velocity, 0 to 1. A fraction below 1 slows the motion down along the same path.
        """
        if not self.moving:
            return
        self.rate = rate = min(pace(self._own_dq), self.rate + period / _RESUME_TIME)
        self._advance_time(rate * period)
        self._own_dq[:] = self.dq
        if rate < 1.0:
            self.dq *= rate
            self.ddq *= rate * rate

    def _advance_time(self, period: float) -> None:
        self.time += period
        time, state = self.time, self._state
        if time >= self.duration:
            self.moving = False
            state[self._n :] = 0.0
            self.q[:] = self.goal
            if self._stops_first:
                self._plan_with_ruckig(self._ruckig_input, state)
            return
        if time >= self._path_end:
            state[self._n :] = 0.0
            self.q[:] = self.goal
        elif self._points is None:
            self.q[:], self.dq[:], self.ddq[:] = self._plan.at_time(time)
        else:
            while time > self._segment_end and self._next < self._count:
                self._join_next_point(self._points[self._next - 1, 1:])
            self._segment.sample(time - self._segment_start, state)
        if time < self._blend_end:
            add(state, self._offset.sample(time, self._offset_value), state)
