# SPDX-License-Identifier: Apache-2.0
"""Where the joints of one arm are to be now: on a path of points, under way, or at rest."""

from __future__ import annotations

import atexit
import math
import weakref
from collections.abc import Callable, Sequence

import numpy as np
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


def let_go_at_exit(owner: object, names: Sequence[str]) -> None:
    """Note the attributes of an object that hold ruckig's; they are dropped at the end."""
    _alive[owner] = tuple(names)


@atexit.register
def _let_go() -> None:
    for owner, names in list(_alive.items()):
        for name in names:
            owner.__dict__.pop(name, None)


def has_plan(ruckig: Ruckig, wanted: InputParameter, plan: Trajectory) -> bool:
    """Return whether ruckig has a plan for what is wanted, and write it to ``plan``.

    Some of what it cannot plan it answers with a negative number, some it raises: what is against
    its rules, and ways of 1e-12 rad, of which it does not find how to be in time with all joints.

    Thread: control.
    """
    try:
        return bool(ruckig.calculate(wanted, plan) >= 0)
    except (RuckigError, ValueError, RuntimeError):
        return False


_add, _subtract = np.add, np.subtract
_RISE = 0.03
"""Time in which a joint may go from no to full acceleration [s]: what the torque's rate limit
lets the heaviest posture follow; the datasheet's jerk is for position control."""
_RESUME = 0.3
"""Time in which a motion that was stopped is back at its own speed [s]."""
_BLEND_SHARE = 0.5
"""Share of the limits that blending an old reference out may use."""
_APART = Synchronization.No
"""Each joint by itself, where ruckig has no plan for all: on ways of 1e-12 rad, which are over
within microseconds."""


def _full(dq: Vector) -> float:
    """Allow every velocity."""
    return 1.0


class JointMotion:
    r"""Generate the reference of one arm's joints, continuous in position and velocity.

    A motion is a path and an *offset*: the difference between the present reference and where
    the path begins, taken back to zero by a quintic. So any motion can begin at any moment.

    - :meth:`follow`: quintic segments through points with times.
    - :meth:`go_to`: to rest at a posture, within limits of velocity, acceleration and jerk, by
      ruckig; scaled as if time ran slower by the factor ``speed``: velocity by it,
      acceleration by its square and jerk by its cube, so the path is the same at any speed.
      A reference that is too fast for that is stopped first.
    - :meth:`stop`: to rest as soon as full acceleration and jerk allow.

    Source of the second: Berscheid and Kröger, Robotics: Science and Systems 2021 (ruckig).

    Args:
        limits: Of the joints.

    Attributes:
        q: Reference position, (n,) [rad].
        dq: Reference velocity, (n,) [rad/s].
        ddq: Reference acceleration, (n,) [rad/s^2].
        reference: Positions, then velocities, of the same memory, (2 n,).
        goal: Where the present motion ends, (n,) [rad].
        time: Since the present motion began [s].
        duration: Of the present motion [s].
        moving: Whether it goes on.
        rate: At which time goes on, 0 to 1; less where it is to slow down.

    Thread: control.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._velocity, self._acceleration = limits.velocity, limits.acceleration
        self._jerk = np.minimum(limits.jerk, limits.acceleration / _RISE)
        self._n = n = limits.n_joints
        self._state = np.zeros(3 * n)
        self.q, self.dq, self.ddq = self._state.reshape(3, n)
        self.reference: Vector = self._state[: 2 * n]
        self.goal = np.zeros(n)
        self.time = self.duration = 0.0
        self.moving = False
        self._begin, self._zero = np.zeros(3 * n), np.zeros(3 * n)
        self._segment, self._offset = Quintic(n), Quintic(n)
        self._offset_value, self._blend_end = np.zeros(3 * n), 0.0
        self._path_end = 0.0
        self.rate, self._own_dq = 1.0, np.zeros(n)
        self._stops_first = False
        self._lower, self._upper = limits.lower, limits.upper
        self._points: Matrix | None = None
        self._count = self._next = 0
        self._segment_begin = self._segment_end = 0.0
        self._ruckig, self._plan = Ruckig(n), Trajectory(n)
        self._way = self._input(ControlInterface.Position)
        self._brake = self._input(ControlInterface.Velocity)
        self.set_speed(1.0)
        self._warm_up()
        let_go_at_exit(self, ("_ruckig", "_plan", "_way", "_brake"))

    def _input(self, interface: ControlInterface) -> InputParameter:
        wanted = InputParameter(self._n)
        wanted.control_interface = interface
        wanted.max_velocity = self._velocity.tolist()
        wanted.max_acceleration = self._acceleration.tolist()
        wanted.max_jerk = self._jerk.tolist()
        wanted.target_velocity = wanted.target_acceleration = [0.0] * self._n
        return wanted

    def _warm_up(self) -> None:
        """Do everything once: the first call of anything is many times slower."""
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
        """Set the share of the speed limits that :meth:`go_to` uses from now on, above 0 to 1."""
        self._speed = self._velocity * speed
        self._braking = (self._acceleration * speed**2, self._jerk * speed**3)
        self._way.max_velocity = self._speed.tolist()
        self._way.max_acceleration = self._braking[0].tolist()
        self._way.max_jerk = self._braking[1].tolist()

    def rest(self, q: Vector, dq: Vector) -> None:
        """Start anew from a measured state: the reference is there, and comes to rest."""
        self.place(q, dq)
        self.stop()

    def place(self, q: Vector, dq: Vector) -> None:
        """Put the reference at a measured state; how it goes on from there is to be said next."""
        self._state[:] = 0.0
        self.q[:], self.dq[:] = q, dq

    def stop(self) -> None:
        """Bring the reference to rest."""
        self._go(self._brake, self._state)

    def give_way(self, q: Vector, dq: Vector) -> None:
        """Come to rest from a measured state, and blend the reference over to that motion."""
        begin = self._begin.reshape(3, self._n)
        begin[0], begin[1], begin[2] = q, dq, 0.0
        self._go(self._brake, self._begin)

    def go_to(self, q: Vector) -> None:
        """Go to rest at a posture, (n,) [rad]."""
        self._way.target_position = q.tolist()
        if (np.abs(self.dq) <= self._speed).all() and self._can_brake():
            self._go(self._way, self._state)
        else:
            self.stop()
            self._stops_first = True

    def _can_brake(self) -> bool:
        """Whether the limits of a way leave room to brake before the position limits.

        (What ruckig says of a plan's extreme positions leaves braking phases out.)
        """
        room = can_stop(self.q, self.dq, self.ddq, self._lower, self._upper, *self._braking)
        return bool(room.all())

    def _go(self, wanted: InputParameter, begin: Vector) -> None:
        """Plan from a joint state.

        Raises:
            ArithmeticError: If ruckig finds no plan.
        """
        q, dq, ddq = begin.reshape(3, self._n).tolist()
        wanted.current_position = q
        wanted.current_velocity = dq
        wanted.current_acceleration = ddq
        if not (self._finds(wanted, Synchronization.Phase) or self._finds(wanted, _APART)):
            raise ArithmeticError(f"ruckig finds no way from {q}")
        self._points, self._stops_first = None, False
        duration = self._plan.duration
        self.goal[:] = self._plan.at_time(duration)[0]
        self._start(begin, duration)

    def _finds(self, wanted: InputParameter, synchronization: Synchronization) -> bool:
        """Return whether ruckig has a plan in which joints move together in this way."""
        wanted.synchronization = synchronization
        return has_plan(self._ruckig, wanted, self._plan)

    def follow(self, points: Matrix, count: int) -> None:
        """Follow points, which must stay as they are until the next motion.

        Args:
            points: (at least ``count``, 1 + 3 n): time since now [s], then joint states.
            count: How many of them count.
        """
        first, begin = points[0], self._begin
        time = float(first[0])
        begin[:] = self._state
        if time < BLEND_TIME:  # too soon to go there: begin where the path comes from
            q, dq, ddq = first[1:].reshape(3, self._n)
            joints = begin.reshape(3, self._n)
            joints[2] = ddq
            joints[1] = dq - time * ddq
            joints[0] = q - time * dq + (0.5 * time * time) * ddq
        self._points, self._count, self._stops_first = points, count, False
        self._segment_begin = self._segment_end = 0.0
        self._next = 0
        self._enter(begin)
        self.goal[:] = points[count - 1, 1 : 1 + self._n]
        self._start(begin, float(points[count - 1, 0]))

    def _enter(self, begin: Vector) -> None:
        """Join ``begin``, the end of the last segment, to the next point."""
        points = self._points
        while points is not None and self._next < self._count:
            end = float(points[self._next, 0])
            self._segment_begin, length = self._segment_end, end - self._segment_end
            target = points[self._next, 1:]
            self._next += 1
            if length > 0.0:
                self._segment_end = end
                self._segment.join(begin, target, length)
                return
            begin = target

    def _start(self, begin: Vector, duration: float) -> None:
        """Begin a path at a joint state, blending out how far the reference is from there."""
        offset = _subtract(self._state, begin, self._offset_value)
        distance = float(np.abs(offset[: self._n]).max())
        rate = float(np.abs(offset[self._n : 2 * self._n]).max())
        self._blend_end = 0.0
        if distance > 1e-9 or rate > 1e-9:
            v = _BLEND_SHARE * float(self._velocity.min())
            a = _BLEND_SHARE * float(self._acceleration.min())
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
    def own_dq(self) -> Vector:
        """Velocity that the path would have if nothing slowed it down, (n,) [rad/s]."""
        return self._own_dq

    @property
    def share_of_speed(self) -> float:
        """Largest share that a joint now has of the speed that :meth:`go_to` may use."""
        return float((np.abs(self.dq) / self._speed).max())

    def allowed(self, pace: Callable[[Vector], float]) -> float:
        """Return the rate that ``pace`` allows the path's own velocity; 1 at rest."""
        return pace(self._own_dq) if self.moving else 1.0

    def advance(self, period: float, pace: Callable[[Vector], float] = _full) -> None:
        """Move the reference on by ``period`` [s].

        Args:
            period: Cycle time.
            pace: Returns the share of a velocity, (n,) [rad/s], that is allowed. Time goes on
                at that rate, and comes back to its own gradually; the path is the same.
        """
        if not self.moving:
            return
        self.rate = rate = min(pace(self._own_dq), self.rate + period / _RESUME)
        self._move(rate * period)
        self._own_dq[:] = self.dq
        if rate < 1.0:
            self.dq *= rate
            self.ddq *= rate * rate

    def _move(self, period: float) -> None:
        """Take the reference from the path at ``period`` after the last one."""
        self.time += period
        time, state = self.time, self._state
        if time >= self.duration:
            self.moving = False
            state[self._n :] = 0.0
            self.q[:] = self.goal
            if self._stops_first:
                self._go(self._way, state)
            return
        if time >= self._path_end:
            state[self._n :] = 0.0
            self.q[:] = self.goal
        elif self._points is None:
            self.q[:], self.dq[:], self.ddq[:] = self._plan.at_time(time)
        else:
            while time > self._segment_end and self._next < self._count:
                self._enter(self._points[self._next - 1, 1:])
            self._segment.at(time - self._segment_begin, state)
        if time < self._blend_end:
            _add(state, self._offset.at(time, self._offset_value), state)
