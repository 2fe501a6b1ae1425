# SPDX-License-Identifier: Apache-2.0
"""Base of the reference governors: parameters, common behaviour and feasible motion."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.force.contact_force import ToolContact
from multipanda_py.control.reference.contact_speed import GOAL_MOTION_TIMEOUT, ReferenceCap
from multipanda_py.control.reference.held_reference import HeldReferenceReporter
from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.controllet import ReferenceLimiter
from multipanda_py.parameters import choice, number
from multipanda_py.state import ArmState, Vector

MIN_SCALE = 0.02
"""Minimum scale of the bounds on acceleration and speed, so that every goal is reached."""
PREDICTION_DISTANCE = 0.02
"""Distance of a reference from its tool above which obstacles between both are predicted [m]."""
HELD_SPEED_RATIO = 0.5
"""Ratio of reference speed to remaining distance below which a reference counts as held back
[1/s]."""
MIN_HELD_DISTANCE, MIN_HELD_ANGLE = 0.01, 0.05
"""Minimum distance [m] and angle [rad] to the goal at which a reference counts as held back."""
MIN_RECORD_CYCLES = 5
"""Minimum number of cycles between recorded targets. The next recorded step includes skipped
targets."""
CONFIGURATION_BOUND_FRACTION = 0.25
"""Fraction of the bounds on acceleration and speed that torque limits allow. Below this fraction,
the configuration counts as the reason why a reference is held back."""
REST_SPEED = 0.01
"""Measured speed below which a reference starts at rest [rad/s, m/s]."""


@dataclass(frozen=True, eq=False)
class GovernorParams:
    """Parameters of the feature ``Governor``: bounds of the reference motion."""

    linear_acceleration: float = number(
        8.0, unit="m/s^2", low=0.1, high=50,
        doc="maximum acceleration towards a target pose, if torque limits allow it",
    )  # fmt: skip
    linear_speed: float = number(
        1.0, unit="m/s", low=0.01, high=3, doc="maximum speed towards a target pose"
    )
    angular_acceleration: float = number(
        20.0, unit="rad/s^2", low=0.1, high=100,
        doc="maximum angular acceleration towards a target pose",
    )  # fmt: skip
    angular_speed: float = number(
        2.5, unit="rad/s", low=0.01, high=10, doc="maximum angular speed towards a target pose"
    )
    joint_acceleration_scaling: float = number(
        0.5, low=0.01, high=1,
        doc="maximum acceleration towards joint targets as a fraction of the robot's limits",
    )  # fmt: skip
    joint_velocity_scaling: float = number(
        0.7, low=0.01, high=1,
        doc="maximum speed towards joint targets as a fraction of the robot's limits",
    )  # fmt: skip
    smoothing: float = number(
        0.04, unit="s", low=0.001, high=0.5,
        doc="minimum averaging time of the velocity, increased if the goal is then reached "
        "earlier; bounds the jerk and causes a lag of half its value; a change waits until the "
        "reference is at rest",
    )  # fmt: skip
    response: str = choice(
        "soft", options=("soft", "direct"),
        doc="motion of a cartesian_impedance after a jump of its target: by the spring alone "
        "(soft), or with velocity and acceleration feed-forward (direct); a change waits until "
        "the reference is at rest",
    )  # fmt: skip
    limit_scale: float = number(
        0.7, low=0.05, high=1,
        doc="usable fraction of the limits of torque, torque rate and joint speed",
    )  # fmt: skip
    rate_timeout: float = number(
        0.1, unit="s", low=0.001, high=10,
        doc="time without a new target after which the target velocity counts as zero",
    )  # fmt: skip
    contact_linear_speed: float = number(
        0.1, unit="m/s", low=0.005, high=3,
        doc="maximum speed of the reference in contact, unless its target is streamed faster",
    )  # fmt: skip
    contact_angular_speed: float = number(
        0.5, unit="rad/s", low=0.01, high=10,
        doc="maximum angular speed of the reference in contact, unless its target is streamed "
        "faster",
    )  # fmt: skip


def cycles_of(time: float, period: float) -> int:
    """Return the number of cycles of ``period`` [s] in a time [s], 1 or more."""
    return max(1, round(time / period))


class ReferenceGovernor(ABC):
    """Governor that turns the target of a client into a reference that the arms can follow.

    The reference is held back if an obstacle, a limit or a contact keeps it from the target.

    Args:
        record: Array that contains the target of the client at the start of each cycle. The
            governor overwrites it with the reference.

    Attributes:
        busy: True if the reference differs from the target, so that ``advance`` must be called.
        smoothing: Averaging time of the reference velocity [s].
        response: Response to jumps of the target, see ``GovernorParams``.
        pacers: Features that limit the reference speed, for example at obstacles.
        contact: Contact detection of the tool that follows the reference.
        held: Reporter of a reference that is held back.
        is_limited: True if a limit other than contact may hold the reference back in this cycle.
        caps: Bounds of the reference speed in contact and after the reference was held back, one
            per trajectory generator.
        cycle: Number of cycles, the time base of ``caps``.

    Thread: control.
    """

    held: HeldReferenceReporter

    def __init__(self, record: Vector) -> None:
        self._record = record
        self._last_record, self._came = b"", False
        self._goal_rate: Vector | None = None
        self._rate_left = 0
        self.busy = False
        self.smoothing = self._averaged = self._period = 0.0
        self.response = ""
        self._trackers: tuple[TrajectoryGenerator, ...] = ()
        self.pacers: Sequence[ReferenceLimiter] = ()
        self.caps: tuple[ReferenceCap, ...] = ()
        self.contact: ToolContact | None = None
        self.is_limited = self._is_slowed = self._is_bounded = False
        self._possible = 1.0
        self.cycle = self._commanded_at = self._recent = 0
        self._blocked: tuple[int, Vector, Vector] | None = None
        self._commanded = record.copy()

    def attach(self, context: Context, name: str, contact: ToolContact | None) -> None:
        """Create the reporter and the speed bounds, and set the contact detection.

        Args:
            context: Context of the controllet.
            name: Name of the arm, or of the object that it moves.
            contact: Contact detection of the tool; None for a reference that moves no tool.
        """
        self.contact, self.held = contact, HeldReferenceReporter(context, name)
        self.caps = tuple(ReferenceCap(context.period) for _ in self._trackers)

    def skip(self) -> None:
        """Discard the measured speed of the target. Call this after cycles without an update."""
        self.cycle += self._recent

    def record_target(self) -> None:
        """Update the speed bounds ``caps`` by the step from the last recorded target.

        Call this after each new target of the client, before any feature changes the target.
        """
        if self.cycle - self._commanded_at < MIN_RECORD_CYCLES:
            return
        self._commanded_at = self.cycle
        for cap, step in zip(self.caps, self._steps(self._commanded)):
            if step > 0.0:
                cap.add_step(step, self.cycle)
        self._commanded[:] = self._record

    @abstractmethod
    def _steps(self, before: Vector) -> Sequence[float]:
        """Return the distance of the target from an earlier target, per trajectory generator."""

    def target_changed(self) -> bool:
        """Count one cycle. Return True if the target has changed, or its velocity has expired."""
        self.cycle += 1
        content = self._record.tobytes()
        has_news = self._came = content != self._last_record
        self._last_record = content
        if self._rate_left > 0:
            self._rate_left -= 1
            # The client has not renewed the velocity of the target in time, so the target stops.
            if self._rate_left == 0:
                self._goal_rate, has_news = None, True
        return has_news

    @property
    def may_move(self) -> bool:
        """True if the reference may move in this cycle, even without a new target."""
        if self.busy or self._rate_left > 0 or self.cycle - self._commanded_at < self._recent:
            return True
        return self.held.cycles > 0

    def renew(self, goal_rate: Vector, cycles: int) -> None:
        """Set the velocity of the target for a limited time.

        Args:
            goal_rate: Velocity of the target, in the units of the target per second.
            cycles: Number of cycles for which the velocity is valid.
        """
        self._last_record = b""
        if goal_rate.any():
            self._goal_rate, self._rate_left = goal_rate, cycles
        else:
            self._goal_rate, self._rate_left = None, 0

    @abstractmethod
    def forget(self) -> None:
        """Discard the current motion. Call this before ``start``."""

    @abstractmethod
    def set_bounds(self, params: GovernorParams) -> None: ...

    @property
    def is_moving(self) -> bool:
        """True while the reference moves. ``smoothing`` must not change then."""
        return any(tracker.moving for tracker in self._trackers)

    def apply_parameters(self, params: GovernorParams, period: float) -> None:
        """Apply parameters while the controllet is active.

        While the reference moves, ``smoothing`` and ``response`` stay unchanged.

        Args:
            params: New parameters.
            period: Cycle time [s].
        """
        # A change in motion would cause a jump of the reference or of the torque.
        if not self.is_moving:
            self.smoothing, self.response = params.smoothing, params.response
        self.set_bounds(params)
        if self.busy:  # Scale the new bounds to the current configuration.
            self.update_bounds()

    def start(self, params: GovernorParams, period: float, at_rest: bool) -> None:
        """Start the reference at the current target, with the measured velocity of the arm.

        The point at which the braking reference stops becomes the new target.

        Args:
            params: Parameters of the governor.
            period: Cycle time [s].
            at_rest: True to start at rest, without a change of the target.
        """
        self.smoothing = self._averaged = params.smoothing
        self.response = params.response
        self._period, cycles = period, cycles_of(params.smoothing, period)
        self.set_bounds(params)
        self._goal_rate, self._rate_left = None, 0
        self._start(cycles, period, math.inf if at_rest else REST_SPEED)
        self._last_record = self._record.tobytes()
        self._commanded[:] = self._record
        self._recent = round(GOAL_MOTION_TIMEOUT / period)
        self._commanded_at = self.cycle - self._recent
        for cap in self.caps:
            cap.reset()
        for tracker in self._trackers:
            if tracker.cap != math.inf:
                tracker.set_cap(math.inf)
        self.held.reset()

    @abstractmethod
    def _start(self, cycles: int, period: float, min_speed: float) -> None:
        """Start with the measured velocity, or at rest below ``min_speed`` [unit/s]."""

    def _smooth(self, time: float) -> None:
        cycles = cycles_of(time, self._period)
        self._averaged = cycles * self._period
        for tracker in self._trackers:
            is_awake = tracker.moving
            tracker.stop(cycles, self._period)
            if is_awake:
                tracker.resume()

    @property
    def _is_still(self) -> bool:
        return all(tracker.is_still for tracker in self._trackers)

    @abstractmethod
    def set_goal(self) -> None:
        """Set the goal of the reference to the target that the client has sent."""

    def check(self) -> None:
        """Move a reference at rest if the arm was pushed away from it; no effect by default."""

    @abstractmethod
    def update_bounds(self) -> None:
        """Set the bounds of acceleration and speed to what the arms can follow now."""

    @property
    def is_paced(self) -> bool:
        """True if an obstacle may slow the reference."""
        return any(pacer.can_slow_down for pacer in self.pacers)

    def _announce_reference(self, ahead: float, speed: float) -> None:
        if ahead > PREDICTION_DISTANCE:
            for pacer in self.pacers:
                pacer.announce_reference(ahead, speed)

    def _velocity_scale(self, arm: int, dq: Vector, ahead: Vector) -> float:
        scale = min([pacer.velocity_scale(arm, dq, ahead) for pacer in self.pacers])
        if scale < 1.0:
            self._blocked = arm, dq, ahead
        return scale

    def _mark_held(self) -> None:
        self.is_limited = self._is_bounded = True
        for cap in self.caps:
            cap.hold(self.cycle)

    def report_held(self) -> None:
        """Report a reference that is held back. Call this once a cycle, after ``advance``."""
        is_held = self.busy and self._is_held()
        if is_held or self.held.cycles:
            self.held.update(is_held, self.cycle, self._reason)
        self._is_slowed, self.is_limited = False, self._possible < CONFIGURATION_BOUND_FRACTION

    @abstractmethod
    def _is_held(self) -> bool:
        """Return True if the reference is held back from its goal."""

    @abstractmethod
    def _reason(self) -> str:
        """Return the reason why the reference is held back, and its distance from the goal."""

    def _blocked_by(self) -> str:
        if self._blocked is None:
            return ""
        arm, dq, ahead = self._blocked
        # Scale the velocity so that the fastest joint moves at 1 rad/s. At this speed, every near
        # obstacle limits the motion and is named in the text.
        faster = dq / max(float(np.abs(dq).max()), 1e-9)
        result = [pacer.blocked_by(arm, faster, ahead) for pacer in self.pacers]
        return "; ".join(filter(None, result))

    @abstractmethod
    def advance(self, period: float) -> None:
        """Advance the reference by one cycle, and replace the target by it."""


@dataclass(frozen=True)
class FeasibleFractions:
    """Fractions of an acceleration and of a speed that an arm can follow.

    Attributes:
        torque: Fraction of the acceleration within the torque limits.
        per_time: Fraction of the acceleration within the torque-rate limits, divided by the
            averaging time of the reference velocity [1/s].
        speed: Fraction of the speed within the joint speed limits.
    """

    torque: float = math.inf
    per_time: float = math.inf
    speed: float = math.inf

    def within(self, other: FeasibleFractions) -> FeasibleFractions:
        """Return the element-wise minimum of these fractions and ``other``."""
        return FeasibleFractions(
            min(self.torque, other.torque),
            min(self.per_time, other.per_time),
            min(self.speed, other.speed),
        )

    def slower(self, scale: float) -> FeasibleFractions:
        """Return a copy with the speed fraction multiplied by ``min(1, scale)``."""
        return replace(self, speed=self.speed * min(1.0, scale))

    def acceleration_fraction(self, smoothing: float) -> float:
        """Return the feasible fraction of the acceleration for an averaging time [s]."""
        return max(min(1.0, self.torque, self.per_time * smoothing), MIN_SCALE)

    def speed_fraction(self) -> float:
        """Return the feasible fraction of the reference speed, from ``MIN_SCALE`` to 1."""
        return max(min(1.0, self.speed), MIN_SCALE)

    def smoothing(self, min_time: float, distance_ratio: float, speed: float) -> float:
        """Return the averaging time with which the reference reaches its goal earliest [s].

        Equation::

            T = min((d / (a k))^(1/3), sqrt(v / (a k)), s / k)

        - d: Length of the path [unit].
        - a, v: Bounds of acceleration [unit/s^2] and speed [unit/s].
        - s: Acceleration fraction within the torque limits, up to 1.
        - k: Acceleration fraction within the torque-rate limits, divided by T [1/s].

        Args:
            min_time: Minimum averaging time, returned if the optimum is shorter [s].
            distance_ratio: Ratio d / a [s^2].
            speed: Ratio v / a [s].
        """
        k = self.per_time
        full = min(1.0, self.torque) / k
        pays = min(math.pow(distance_ratio / k, 1.0 / 3.0), math.sqrt(speed / k), full)
        return max(min_time, pays)


def feasible_fractions(
    tau: Vector, dq: Vector, state: ArmState, limit_scale: float
) -> FeasibleFractions:
    """Return the fractions of an acceleration and of a speed that an arm can follow.

    Equations::

        s_a = min_i sigma min(tau_max,i, T_s dtau_max,i / 2) / |tau_i|
        s_v = min_i sigma dq_max,i / |dq_i|

    - s_a, s_v: Fractions of acceleration and speed.
    - tau, dq, sigma: Arguments ``tau``, ``dq`` and ``limit_scale``.
    - tau_max, dtau_max, dq_max: Limits of torque [Nm], torque rate [Nm/s] and speed [rad/s], (n,).
    - T_s: Averaging time [s]. Half of it counts, because the acceleration may reverse.

    Args:
        tau: Torques at the full acceleration, (n,) [Nm].
        dq: Joint velocities at the full speed, (n,) [rad/s].
        state: State of the arm, with its limits.
        limit_scale: Usable fraction sigma of the limits.
    """
    limits, tau = state.limits, np.abs(tau)
    hard = float((tau / limits.torque).max())
    sudden = 2.0 * float((tau / limits.torque_rate).max())
    fast = float((np.abs(dq) / limits.velocity).max())
    return FeasibleFractions(*(limit_scale / max(used, 1e-9) for used in (hard, sudden, fast)))
