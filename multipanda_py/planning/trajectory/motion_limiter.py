# SPDX-License-Identifier: Apache-2.0
"""The last bound of commanded joint positions: velocity, acceleration, jerk, and room to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from ruckig import ControlInterface, InputParameter, Ruckig, Synchronization, Trajectory

from multipanda_py.planning.trajectory.joint_motion import has_plan, let_go_at_exit
from multipanda_py.planning.trajectory.trajectory import can_stop
from multipanda_py.state import ArmLimits, Matrix, Vector

Joints: TypeAlias = NDArray[np.bool_]
_CREEP = 1e-4
"""Least speed that ruckig may plan with: with none it has no plan [rad/s]."""
_Passed: TypeAlias = tuple[Joints, Matrix]
_CORRECTION_TIME = 0.02
"""Time in which a bounded correction reaches its speed, and brakes from it [s]."""
_ROUNDED_REST = 1e-12
"""Speeds [rad/s] and accelerations [rad/s^2] that are rounding at the end of a plan to rest."""
_ROUNDING = 1.0 + 1e-6
"""Commands at a limit are to pass."""
_SHARE = 0.98
"""Of the limits for what ruckig plans: their differences are then within them, too."""


class MotionLimiter:
    r"""Move a command on by one period, never faster than the joints may.

    A wanted position :math:`q_w` of a joint passes as it is if its differences keep the limits

    .. math::
        v = \frac{q_w - q}{T}, \quad a = \frac{v - v'}{T}, \quad j = \frac{a - a'}{T}, \qquad
        |v| \le \dot q_{max}, \; |a| \le \ddot q_{max}, \; |j| \le \dddot q_{max}

    with those of the last command, :math:`v'` and :math:`a'`, and if the joint can stop within
    the position limits from there (:func:`.can_stop`). Otherwise its command goes towards it as
    fast as it may (ruckig); where that would not leave room to stop, it brakes. As each of these
    ends in a state from which the brake stays within all limits, so does the whole.

    Robots judge differences (FCI documentation, and libfranka's rate limiter), while ruckig plans
    continuously; a continuous motion within limits has differences within them, too.

    Args:
        limits: Of the joints.
        period: Time between two commands, T [s].
        command: Where the command is kept: positions, velocities and accelerations as a continuous
            motion has them at the command, (3, n) [rad]; own memory if None.
        fastest: Returns the largest speeds at positions in the direction of velocities, each (n,),
            where they get lower towards the position limits.
        catch_up: Maximum speed of the command towards wanted positions at rest [rad/s]. Towards
            moving ones it is their speed. None: as fast as the limits allow.

    Attributes:
        command: As given.
        limited: Whether the last wanted position has not passed as it was.

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
        self._rate, self._change = np.zeros(n), np.zeros(n)  # differences until the last command
        self._last = self.q.copy()
        self._wanted = self.q.copy()
        self._age = 1  # periods since the last wanted positions
        bounds = (limits.velocity, limits.acceleration, limits.jerk)
        self._velocity, self._acceleration, self._jerk = (_ROUNDING * b for b in bounds)
        self._catch = 0.25 * limits.jerk * period**2
        self._most = _SHARE * limits.velocity
        self._braking = _SHARE * limits.acceleration, _SHARE * limits.jerk
        self._ruckig, self._plan = Ruckig(n), Trajectory(n)
        self._way = self._input(ControlInterface.Position)
        self._stop = self._input(ControlInterface.Velocity)
        let_go_at_exit(self, ("_ruckig", "_plan", "_way", "_stop"))
        for step in (self.follow, self.follow_rate):  # the first call of anything is slow
            step(self.q + 0.1)
        self.start(self.q)

    def _input(self, interface: ControlInterface) -> InputParameter:
        limits = self._limits
        wanted = InputParameter(limits.n_joints)
        wanted.control_interface = interface
        wanted.synchronization = Synchronization.No
        wanted.target_position = [0.0] * limits.n_joints
        wanted.max_velocity = (_SHARE * limits.velocity).tolist()
        wanted.max_acceleration = (_SHARE * limits.acceleration).tolist()
        wanted.max_jerk = (_SHARE * limits.jerk).tolist()
        return wanted

    def start(self, q: Vector, dq: Vector | None = None, ddq: Vector | None = None) -> None:
        """Begin at a command that somebody else has executed; at rest if no more is said.

        Args:
            q: Positions, (n,) [rad].
            dq: Difference to the previous command, per period, (n,) [rad/s].
            ddq: Difference of dq to the previous one, per period, (n,) [rad/s^2].
        """
        self._begin(q, dq, ddq)
        self._wanted[:] = q
        self._age = 1

    def correct(self, q: Vector, dq: Vector, ddq: Vector) -> None:
        """Continue from another command than the last one, with the same wanted positions.

        Args:
            q: Positions, (n,) [rad].
            dq: Difference to the previous command, per period, (n,) [rad/s].
            ddq: Difference of dq to the previous one, per period, (n,) [rad/s^2].
        """
        self._begin(q, dq, ddq)

    def _begin(self, q: Vector, dq: Vector | None, ddq: Vector | None) -> None:
        self.q[:] = q
        self._rate[:] = 0.0 if dq is None else dq
        self._change[:] = 0.0 if ddq is None else ddq
        self.dq[:] = self._rate + 0.5 * self._period * self._change
        self.ddq[:] = self._change
        self._last[:] = q
        self.limited = False

    @property
    def is_untouched(self) -> bool:
        """Whether the command is where the last step has left it."""
        return bool((self._last == self.q).all())

    @property
    def at_rest(self) -> bool:
        """Whether the command neither moves nor is about to."""
        return not (self.dq.any() or self.ddq.any())

    def follow(self, wanted: Vector) -> None:
        """Move on towards positions, (n,) [rad]; they are finite."""
        T, rate = self._period, self._rate
        if self.at_rest and not rate.any() and (wanted == self.q).all():
            self.limited = False
            self._wanted[:] = wanted
            self._age = 1
            return
        v = (wanted - self.q) / T
        speed = (wanted - self._wanted) / (self._age * T)
        joins = np.abs(v - speed) <= self._catch
        passed = self._passes(wanted, v, (v - rate) / T, joins)
        if self.limited:
            self._keep(self._approach(wanted, speed), passed)
        self._wanted[:] = wanted
        self._age = 1

    def follow_rate(self, wanted: Vector) -> None:
        """Move on towards velocities, (n,) [rad/s]; they are finite."""
        T, bound = self._period, self._limits.velocity
        v = np.minimum(np.maximum(wanted, -bound), bound)
        passed = self._passes(self.q + T * v, v, (v - self._rate) / T, True)
        if self.limited:
            self._keep(self._aim(np.minimum(np.maximum(v, -self._most), self._most)), passed)

    def brake(self) -> None:
        """Move on along the shortest stop."""
        self.limited = False
        self._age += 1
        if self.at_rest:
            self._rate[:] = self._change[:] = 0.0
            return
        self._keep(self._brake(), None)
        if np.abs(self.command[1:]).max() < _ROUNDED_REST:
            self.command[1:] = 0.0

    def _passes(self, q: Vector, v: Vector, a: Vector, joins: bool | Joints) -> _Passed:
        """Take positions with their differences if every joint may have them.

        A joint that was away from them comes back with their velocity (``joins``), or it would
        pass through them, and swing.

        Returns:
            Which joints may, and the continuous motion that they would have.
        """
        T = self._period
        motion = np.array((q, v + 0.5 * T * a, a))
        may = self._may_stop(motion) & joins
        may &= np.abs(v) <= self._velocity
        may &= np.abs(a) <= self._acceleration
        may &= np.abs(a - self._change) <= self._jerk * T
        self.limited = not may.all()
        if not self.limited:
            self._rate[:], self._change[:] = v, a
            self.command[:] = motion
            self._last[:] = q
        return may, motion

    def _may_stop(self, motion: Matrix) -> Joints:
        """Return which joints stay below their speed and can stop, from a motion (3, n)."""
        limits, (q, dq, ddq) = self._limits, motion
        after = np.abs(dq + ddq * np.abs(ddq) / (2.0 * limits.jerk))  # once ddq is taken away
        lower, upper = np.minimum(limits.lower, self.q), np.maximum(limits.upper, self.q)
        found = can_stop(q, dq, ddq, lower, upper, *self._braking)
        if self._fastest is not None:
            found &= after <= self._fastest(q, dq)
        return np.asarray(found & (after <= self._velocity))

    def _approach(self, wanted: Vector, speed: Vector) -> Matrix:
        """Return one step of the fastest way to positions that move on as they did, (3, n).

        As seen from what moves with them it is a way to rest. (To be there with their velocity
        would be one that takes a run-up.)
        """
        limits, way, T, most = self._limits, self._way, self._period, self._most
        if self._catch_up is not None:
            most = self._bound_correction(self._catch_up, speed)
        moving = np.abs(speed) <= 0.9 * most
        moving &= self._may_stop(np.array((wanted, speed, 0.0 * speed)))
        speed *= moving
        goal = np.minimum(np.maximum(wanted, limits.lower), limits.upper)
        way.current_position = (self.q - goal + T * speed).tolist()  # they arrive at the goal
        way.current_velocity = (self.dq - speed).tolist()
        way.current_acceleration = self.ddq.tolist()
        up = down = most
        if self._fastest is not None:  # ruckig brakes in time, or steps and brakes would alternate
            up = np.minimum(most, self._fastest(self.q, self.dq.clip(min=_CREEP)))
            down = np.minimum(most, self._fastest(self.q, self.dq.clip(max=-_CREEP)))
        way.max_velocity = np.maximum(up - speed, _CREEP).tolist()
        way.min_velocity = np.minimum(-down - speed, -_CREEP).tolist()
        if not self._has_plan(way):
            return self._brake()
        q, dq, ddq = map(np.array, self._plan.at_time(T))
        return self._or_brake(np.array((q + goal, dq + speed, ddq)))

    def _bound_correction(self, catch_up: float, speed: Vector) -> Vector:
        """Bound the motion to the wanted positions, which have a speed; return its speeds, (n,).

        Towards positions at rest it is slow. A robot continues with the last acceleration while
        commands are lost, and would overshoot after that of a short, fast correction.
        """
        limits, way = self._limits, self._way
        acceleration = np.maximum(np.abs(self.dq), catch_up) / _CORRECTION_TIME
        acceleration = np.minimum(acceleration, _SHARE * limits.acceleration)
        is_still = np.abs(speed) <= catch_up
        acceleration = np.where(is_still, acceleration, _SHARE * limits.acceleration)
        jerk = np.where(is_still, 4.0 * acceleration / _CORRECTION_TIME, _SHARE * limits.jerk)
        way.max_acceleration = acceleration.tolist()
        way.max_jerk = np.minimum(jerk, _SHARE * limits.jerk).tolist()
        return np.minimum(self._most, np.maximum(np.abs(speed), catch_up))

    def _aim(self, rate: Vector) -> Matrix:
        """Return one step of the fastest way to velocities (n,) [rad/s], (3, n)."""
        found = self._to_rate(rate)
        return self._brake() if found is None else self._or_brake(found)

    def _or_brake(self, motion: Matrix) -> Matrix:
        """Return a step, with that of the brake for joints that could not stop afterwards."""
        may = self._may_stop(motion)
        return motion if may.all() else np.where(may, motion, self._brake())

    def _brake(self) -> Matrix:
        """Return one step of the shortest stop, (3, n)."""
        found = self._to_rate(np.zeros_like(self.q))
        if found is not None:
            return found
        most = self._limits.acceleration * self._period  # no plan is found: no limit of jerk
        v = self._rate - np.clip(self._rate, -most, most)
        return np.array((self.q + self._period * v, v, 0.0 * v))

    def _to_rate(self, rate: Vector) -> Matrix | None:
        plan = self._stop
        plan.current_position = self.q.tolist()
        plan.current_velocity = self.dq.tolist()
        plan.current_acceleration = self.ddq.tolist()
        plan.target_velocity = rate.tolist()
        return np.array(self._plan.at_time(self._period)) if self._has_plan(plan) else None

    def _has_plan(self, wanted: InputParameter) -> bool:
        return has_plan(self._ruckig, wanted, self._plan)

    def _keep(self, motion: Matrix, passed: _Passed | None) -> None:
        """Take a step; joints whose wanted position passes have that."""
        if passed is not None:
            motion = np.where(*passed, motion)
        v = (motion[0] - self.q) / self._period
        self._change[:] = (v - self._rate) / self._period
        self._rate[:] = v
        self.command[:] = motion
        self._last[:] = self.q
