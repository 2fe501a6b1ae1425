# SPDX-License-Identifier: Apache-2.0
"""One record of a law's target that a governor shapes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import ToolContact
from multipanda_py.control.reference.reference_limits import RECENT, HeldReference, ReferenceCap
from multipanda_py.control.reference.trajectory_generator import Tracker
from multipanda_py.controllet import Pacer
from multipanda_py.parameters import choice, number
from multipanda_py.state import ArmState, Vector

SMALLEST_SHARE = 0.02
"""Of the bounds that stays whatever a posture allows, so that every goal is reached."""
AHEAD = 0.02
"""How far a reference may be ahead of its tool and meet nothing that the arm does not [m]."""
SLOW = 0.5
"""Speed of a reference relative to its gap, below which it is held back [1/s]."""
FAR, FAR_TURN = 0.01, 0.05
"""Gap from which a reference can be held back [m], [rad]."""
OFTEN = 5
"""Cycles after a recorded target in which further ones are left out: their sum counts later."""
FEW = 0.25
"""Fraction of a bound, below which the configuration counts as holding the reference back."""
AT_REST = 0.01
"""Measured speed that counts as none when a reference begins [rad/s, m/s]."""


@dataclass(frozen=True, eq=False)
class GovernorParams:
    """Bounds of :class:`.Governor`."""

    acceleration: float = number(
        8.0, unit="m/s^2", low=0.1, high=50, doc="of a target pose, where torques allow it"
    )
    speed: float = number(1.0, unit="m/s", low=0.01, high=3, doc="of a target pose")
    turn_acceleration: float = number(
        20.0, unit="rad/s^2", low=0.1, high=100, doc="of a target pose"
    )
    turn_speed: float = number(2.5, unit="rad/s", low=0.01, high=10, doc="of a target pose")
    joint_acceleration: float = number(
        0.5, low=0.01, high=1, doc="of joint targets: share of the robot's limits"
    )
    joint_speed: float = number(
        0.7, low=0.01, high=1, doc="of joint targets: share of the robot's limits"
    )
    smoothing: float = number(
        0.04, unit="s", low=0.001, high=0.5,
        doc="minimum time over which velocity is averaged, longer where that is faster; half of "
        "it is the lag, and it bounds the jerk; a change waits until the reference is at rest",
    )  # fmt: skip
    response: str = choice(
        "soft", options=("soft", "direct"),
        doc="motion of a cartesian_impedance whose target has jumped: drawn by the spring alone, "
        "or with velocity and acceleration of the reference fed forward; a change waits until the "
        "reference is at rest",
    )  # fmt: skip
    share: float = number(
        0.7, low=0.05, high=1,
        doc="of the limits of torque, torque rate and joint speed that the motion may ask for",
    )  # fmt: skip
    rate_timeout: float = number(
        0.1, unit="s", low=0.001, high=10,
        doc="after which the velocity of a target that is not renewed counts as zero",
    )  # fmt: skip
    contact_speed: float = number(
        0.1, unit="m/s", low=0.005, high=3,
        doc="maximum speed of the reference while the tool presses, if its target does not move "
        "faster",
    )  # fmt: skip
    contact_turn_speed: float = number(
        0.5, unit="rad/s", low=0.01, high=10, doc="the same of its rotation"
    )


def cycles_of(time: float, period: float) -> int:
    """Return the number of cycles of ``period`` [s] in a time [s], at least 1."""
    return max(1, round(time / period))


class GovernedChannel(ABC):
    """Ask whether a record has changed, shape it, write it.

    Args:
        record: Where the target's channel is; every cycle begins with what was asked for in it.

    Attributes:
        busy: Whether the law may not see the record as it was asked for.
        smoothing: Time over which velocity is averaged now [s].
        response: Response to jumps now, as in :class:`GovernorParams`.
        pacers: What may slow the reference down, as an obstacle is in its way; a live list.
        contact: Contact estimate of the tool that follows the reference.
        held: Reporter of a reference that is held back.
        is_limited: Whether a limit other than contact may hold the reference back in this cycle.
        caps: Speed bounds, one per tracker.
        cycle: Count of cycles, the time of ``caps``.

    Thread: control.
    """

    held: HeldReference

    def __init__(self, record: Vector) -> None:
        self._record = record
        self._seen, self._came = b"", False
        self._goal_rate: Vector | None = None
        self._rate_left = 0
        self.busy = False
        self.smoothing = self._averaged = self._period = 0.0
        self.response = ""
        self._trackers: tuple[Tracker, ...] = ()
        self.pacers: Sequence[Pacer] = ()
        self.caps: tuple[ReferenceCap, ...] = ()
        self.contact: ToolContact | None = None
        self.is_limited = self._is_slowed = self._is_bounded = False
        self._possible = 1.0
        self.cycle = self._given_at = self._recent = 0
        self._blocked: tuple[int, Vector, Vector] | None = None
        self._given = record.copy()

    def attach(self, context: Context, name: str, contact: ToolContact | None) -> None:
        """Set the contact estimate, the reporter and the speed bounds.

        Args:
            context: Context of the controllet.
            name: Name of the arm, or of the object that it moves.
            contact: Contact estimate of the tool; None for a reference that moves no tool.
        """
        self.contact, self.held = contact, HeldReference(context, name)
        self.caps = tuple(ReferenceCap(context.period) for _ in self._trackers)

    def skip(self) -> None:
        """Count a second, as cycles are missing before the next one."""
        self.cycle += self._recent

    def give(self) -> None:
        """Record a target as the client gave it, before any feature reshapes it."""
        if self.cycle - self._given_at < OFTEN:
            return
        self._given_at = self.cycle
        for cap, step in zip(self.caps, self._steps(self._given)):
            if step > 0.0:
                cap.give(step, self.cycle)
        self._given[:] = self._record

    @abstractmethod
    def _steps(self, before: Vector) -> Sequence[float]:
        """Return the distance of the record from an earlier one, per tracker [unit]."""

    def has_news(self) -> bool:
        """Return whether something else is asked for than in the last cycle."""
        self.cycle += 1
        seen = self._record.tobytes()
        has_news = self._came = seen != self._seen
        self._seen = seen
        if self._rate_left > 0:
            self._rate_left -= 1
            if self._rate_left == 0:  # a velocity that was not renewed
                self._goal_rate, has_news = None, True
        return has_news

    @property
    def is_watching(self) -> bool:
        """Whether the reference may move though nothing new is asked for."""
        if self.busy or self._rate_left > 0 or self.cycle - self._given_at < self._recent:
            return True
        return self.held.cycles > 0

    def renew(self, goal_rate: Vector, cycles: int) -> None:
        """Take the velocity of the goal, a live view, which counts for some cycles."""
        self._seen = b""
        if goal_rate.any():
            self._goal_rate, self._rate_left = goal_rate, cycles
        else:
            self._goal_rate, self._rate_left = None, 0

    @abstractmethod
    def forget(self) -> None:
        """Have no motion under way any more; :meth:`start` comes next."""

    @abstractmethod
    def set_bounds(self, params: GovernorParams) -> None:
        """Take parameters over."""

    @property
    def is_moving(self) -> bool:
        """Whether velocities are averaged, over the time that holds until nothing moves."""
        return any(tracker.moving for tracker in self._trackers)

    def take(self, params: GovernorParams, period: float) -> None:
        """Take parameters over while the law is at work.

        A mean over another time would jump, or pass the goal, and a feed-forward that begins in
        motion is a step of torque: both wait until nothing moves.
        """
        if not self.is_moving:
            self.smoothing, self.response = params.smoothing, params.response
        self.set_bounds(params)
        if self.busy:  # or the posture would not count until the next look
            self.look()

    def start(self, params: GovernorParams, period: float, at_rest: bool) -> None:
        """Begin at what the record holds, at rest or measured speed; write where that ends."""
        self.smoothing = self._averaged = params.smoothing
        self.response = params.response
        self._period, cycles = period, cycles_of(params.smoothing, period)
        self.set_bounds(params)
        self._goal_rate, self._rate_left = None, 0
        self._begin(cycles, period, math.inf if at_rest else AT_REST)
        self._seen = self._record.tobytes()
        self._given[:] = self._record
        self._recent = round(RECENT / period)
        self._given_at = self.cycle - self._recent
        for cap in self.caps:
            cap.reset()
        for tracker in self._trackers:
            if tracker.cap != math.inf:
                tracker.set_cap(math.inf)
        self.held.reset()

    @abstractmethod
    def _begin(self, cycles: int, period: float, least: float) -> None:
        """Implement :meth:`start`; a measured speed below ``least`` counts as zero."""

    def _smooth(self, time: float) -> None:
        """Set the averaging time of velocities [s]; call only while the reference is at rest."""
        cycles = cycles_of(time, self._period)
        self._averaged = cycles * self._period
        for tracker in self._trackers:
            is_awake = tracker.moving
            tracker.rest(cycles, self._period)
            if is_awake:
                tracker.wake()

    @property
    def _is_still(self) -> bool:
        return all(tracker.is_still for tracker in self._trackers)

    @abstractmethod
    def aim(self) -> None:
        """Head for what the record holds now."""

    def check(self) -> None:
        """Look after a reference at rest, now and then."""

    @abstractmethod
    def look(self) -> None:
        """Scale the bounds by what the arms can follow in their posture of now."""

    @property
    def is_paced(self) -> bool:
        """Whether anything could be in the way of the reference."""
        return any(pacer.may_slow for pacer in self.pacers)

    def _foresee(self, ahead: float, speed: float) -> None:
        """Have the pacers look at what a reference may meet before its arm does.

        Args:
            ahead: How far it is from the tool [m].
            speed: Its own [m/s].
        """
        if ahead > AHEAD:
            for pacer in self.pacers:
                pacer.foresee(ahead, speed)

    def _pace(self, arm: int, dq: Vector, ahead: Vector) -> float:
        """Return the share of a reference's velocity that all pacers allow.

        Args:
            arm: Number of the arm.
            dq: Velocity of the reference, in joints, (n,) [rad/s].
            ahead: How far it is ahead of the arm, (n,) [rad].
        """
        share = min([pacer.pace(arm, dq, ahead) for pacer in self.pacers])
        if share < 1.0:
            self._blocked = arm, dq, ahead
        return share

    def _hold(self) -> None:
        """Note that the reference is held back in this cycle."""
        self.is_limited = self._is_bounded = True
        for cap in self.caps:
            cap.hold(self.cycle)

    def watch(self) -> None:
        """Report a reference that is held back, after :meth:`advance` or instead of it."""
        is_held = self.busy and self._is_held()
        if is_held or self.held.cycles:
            self.held.update(is_held, self.cycle, self._why)
        self._is_slowed, self.is_limited = False, self._possible < FEW

    @abstractmethod
    def _is_held(self) -> bool:
        """Return whether something keeps the reference from its goal."""

    @abstractmethod
    def _why(self) -> str:
        """Return the reason, and the distance from the reference to its goal."""

    def _in_the_way(self) -> str:
        """Return the reasons of the pacers for the last velocity that they reduced."""
        if self._blocked is None:
            return ""
        arm, dq, ahead = self._blocked
        faster = dq / max(float(np.abs(dq).max()), 1e-9)  # any speed would be too much
        found = [pacer.in_the_way(arm, faster, ahead) for pacer in self.pacers]
        return "; ".join(filter(None, found))

    @abstractmethod
    def advance(self, period: float) -> None:
        """Move on by one period and write the record."""


@dataclass(frozen=True)
class Possible:
    """Fractions of an acceleration and of a speed that an arm can follow.

    Attributes:
        torque: Fraction of the acceleration within the torque limits.
        per_time: Fraction within the torque rate limits, per smoothing time [1/s].
        speed: Fraction of the speed within the joint speed limits.
    """

    torque: float = math.inf
    per_time: float = math.inf
    speed: float = math.inf

    def within(self, other: Possible) -> Possible:
        """Return the smaller fractions of both."""
        return Possible(
            min(self.torque, other.torque),
            min(self.per_time, other.per_time),
            min(self.speed, other.speed),
        )

    def slower(self, scale: float) -> Possible:
        """Return a copy with the speed fraction scaled, if the scale is below 1."""
        return replace(self, speed=self.speed * min(1.0, scale))

    def harder(self, smoothing: float) -> float:
        """Return the fraction of the acceleration for a smoothing time [s]."""
        return max(min(1.0, self.torque, self.per_time * smoothing), SMALLEST_SHARE)

    def faster(self) -> float:
        """Return the fraction of the speed."""
        return max(min(1.0, self.speed), SMALLEST_SHARE)

    def smoothing(self, least: float, way: float, speed: float) -> float:
        r"""Return the smoothing time with the shortest time to the goal [s].

        A smoothing time T allows the fraction :math:`\min(s, k T)` of the acceleration a. A path
        of length d then takes :math:`2 \sqrt{d / (a k T)} + T`, or
        :math:`d / v + v / (a k T) + T` with the speed limit v. The optimum is

        .. math:: T = \min\left( (d / a k)^{1/3},\; \sqrt{v / (a k)},\; s / k \right)

        A time above ``least`` is used only where it is faster.

        Args:
            least: Minimum smoothing time [s].
            way: Ratio d / a [s^2].
            speed: Ratio v / a [s].
        """
        k = self.per_time
        full = min(1.0, self.torque) / k
        pays = min(math.pow(way / k, 1.0 / 3.0), math.sqrt(speed / k), full)
        return max(least, pays)


def possible_share(tau: Vector, dq: Vector, state: ArmState, share: float) -> Possible:
    r"""Return the fractions of an acceleration and of a speed that an arm can follow.

    .. math::
        s_a = \min_i \frac{\sigma \min(\tau_{max,i}, T_s \dot\tau_{max,i} / 2)}{|\tau_i|}, \qquad
        s_v = \min_i \frac{\sigma\, \dot q_{max,i}}{|\dot q_i|}

    The half is there because the acceleration may have to turn round within :math:`T_s`.

    Args:
        tau: Torques at the full acceleration, (n,) [Nm].
        dq: Joint velocities at the full speed, (n,) [rad/s].
        state: State of the arm, with its limits.
        share: Usable fraction of the limits, sigma.
    """
    limits, tau = state.limits, np.abs(tau)
    hard = float((tau / limits.torque).max())
    sudden = 2.0 * float((tau / limits.torque_rate).max())
    fast = float((np.abs(dq) / limits.velocity).max())
    return Possible(*(share / max(used, 1e-9) for used in (hard, sudden, fast)))
