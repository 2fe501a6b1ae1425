# SPDX-License-Identifier: Apache-2.0
"""What a law is told of how its governed reference moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

from multipanda_py.control.few_numbers import scaled
from multipanda_py.control.goal_speed import GoalSpeed
from multipanda_py.control.tracker import Tracker
from multipanda_py.state import Vector
from multipanda_py.targets import ReferenceMotion

_pack = Struct("6d").pack_into
LEAST = 1e-9
"""Step that is more than rounding [m, rad]."""


class ToldMotion:
    r"""Tell a law of a reference's velocity and acceleration, as far as its goal moves.

    .. math::
        \dot x_{told} = s\, \dot r, \quad \ddot x_{told} = s\, \ddot r, \qquad
        s = \min(1,\; \mathrm{LEAD}\, v_g / \|\dot r\|)

    for position and orientation apart, with the goal's speed :math:`v_g` by
    :class:`~multipanda_py.control.goal_speed.GoalSpeed`, or that of a twist which came with it.
    The way to a goal that has jumped is the governor's, not the user's: an arm driven along it by
    more than its spring meets what nobody reckoned with as fast as torques allow. With
    ``governor.response: direct`` s is 1 for jumps as well.

    Args:
        motion: Where the law looks.

    Thread: control.
    """

    LEAD = 3.0
    """Speed of a reference that is told of, in units of its goal's: a stream comes unevenly, and
    is told of sooner."""

    def __init__(self, motion: ReferenceMotion) -> None:
        self._motion, self._period = motion, 0.0
        self.start(1e-3)

    def start(self, period: float) -> None:
        """Begin with a goal at rest; cycles last ``period`` [s]."""
        if period != self._period:
            self._period = period
            self._goal_speed, self._goal_turn = GoalSpeed(period), GoalSpeed(period)
        self._goal_speed.reset()
        self._goal_turn.reset()
        self._motion.moving = False

    @property
    def remembers(self) -> bool:
        """Whether the goal has moved lately."""
        return self._goal_speed.remembers or self._goal_turn.remembers

    def step(self, distance: float, angle: float) -> None:
        """Take a step of the goal [m], [rad]."""
        if distance > LEAST:
            self._goal_speed.step(distance)
        if angle > LEAST:
            self._goal_turn.step(angle)

    def advance(self) -> None:
        """Go on by one cycle."""
        if self._goal_speed.remembers:
            self._goal_speed.advance()
        if self._goal_turn.remembers:
            self._goal_turn.advance()

    def tell(
        self, linear: Tracker, angular: Tracker, goal_rate: Vector | None, is_direct: bool = False
    ) -> None:
        """Write what the law is told of a reference.

        Args:
            linear: Its position.
            angular: Its orientation.
            goal_rate: The goal's twist if it is known, (6,) [m/s, rad/s].
            is_direct: Whether the controllet receives all of the motion to a goal that has jumped.
        """
        motion, rate, other = self._motion, linear.rate, angular.rate
        gain, other_gain = linear.acceleration, angular.acceleration
        speed, turn = self._goal_speed.speed, self._goal_turn.speed
        if is_direct:
            speed = turn = math.inf
        elif goal_rate is not None:
            speed = max(speed, math.hypot(*goal_rate[:3]))
            turn = max(turn, math.hypot(*goal_rate[3:]))
        share = self._share(speed, rate)
        if share < 1.0:
            rate, gain = scaled(rate, share), scaled(gain, share)
        share = self._share(turn, other)
        if share < 1.0:
            other, other_gain = scaled(other, share), scaled(other_gain, share)
        _pack(motion.twist.data, 0, *rate, *other)  # half the time of an assignment
        _pack(motion.acceleration.data, 0, *gain, *other_gain)
        motion.moving = linear.moving or angular.moving

    def _share(self, goal_speed: float, rate: Sequence[float]) -> float:
        most, speed = self.LEAD * goal_speed, math.hypot(*rate)
        return 1.0 if speed <= most else most / speed
