# SPDX-License-Identifier: Apache-2.0
"""Monitoring of joint motions: tolerances, obstacles, contact, abort reasons and reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy import dot, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Report, TrajectoryTarget

REPORT_RESET_TIME = 1.0
"""Time without an abort after which the same reason is reported again [s]."""


class AbortNotices:
    """Messages to the operator about aborted motions of an arm.

    The same reason is reported again only after a second without an abort.

    Args:
        context: Context of the controllet.
        place: Index of the arm in the controllet.

    Attributes:
        cycles: Current time [cycles]. ``TrajectoryMonitor`` increments it in each cycle.

    Thread: control.
    """

    def __init__(self, context: Context, place: int) -> None:
        self._context, self._arm = context, context.arms[place]
        self._pause = REPORT_RESET_TIME / context.period
        self.forget()

    def forget(self) -> None:
        self.cycles, self._last, self._reason = 0, 0, ""

    def tolerance_exceeded(
        self, joint: int, size: float, max_value: float, reference_name: str, time: str
    ) -> None:
        """Report a motion that was aborted because an error exceeded a tolerance.

        Args:
            joint: Number of the joint, from 1.
            size: Distance of the joint from the path or the goal [rad or m].
            max_value: Tolerance [rad or m].
            reference_name: ``"path"`` or ``"goal"``.
            time: Time of the violation, as text.
        """
        unit = self._arm.limits.unit(joint - 1)
        name = f"{reference_name}_tolerance"
        text = f"joint {joint} was {size:.3f} {unit} from the {reference_name} {time}"
        self._log(
            name, f"{text}, above the maximum of {max_value:g} {unit} ({name})", "stops and yields"
        )

    def contact(self, joint: int, size: float) -> None:
        """Report a motion that was aborted because of a contact.

        Args:
            joint: Number of the joint, from 1; 0 for the tool.
            size: External torque of the joint [Nm or N], or force at the tool [N].
        """
        text = f"contact: force at the tool reached {size:.1f} N (contact_force)"
        if joint:
            unit = self._arm.limits.unit(joint - 1, "Nm")
            text = (
                f"contact: external torque of joint {joint} reached {size:.1f} {unit} "
                "(contact_torque)"
            )
        self._log("contact", text, "stops and yields")

    def report_blocked(self, words: str, waited: float) -> None:
        """Report a motion that was aborted because it waited too long for an obstacle.

        Args:
            words: Description of the obstacle.
            waited: Time for which the arm has waited [s].
        """
        self._log(
            "blocked", f"{words}. The arm has waited {waited:g} s (goal_time)", "stays there"
        )

    def _log(self, reason: str, text: str, then: str) -> None:
        is_repeated = reason == self._reason and self.cycles - self._last < self._pause
        self._last, self._reason = self.cycles, reason
        if not is_repeated:
            self._context.notify(
                f"{self._arm.name}: motion ended before its goal: {text}. The arm {then}."
            )


_SLOWED_FRACTION = 0.5
"""Fraction of its planned speed below which a motion counts as slowed by an obstacle."""
_STOPPED_FRACTION = 0.02
"""Fraction of its planned speed below which a motion counts as stopped by an obstacle. In a stream
of motions, a slowed one also counts as stopped below this fraction of the full speed."""

TIME = Report("time", "s", "time since the start of the motion")
DURATION = Report("duration", "s", "duration of the motion")
MAX_ERROR = Report("max error", "rad", "maximum error of a joint to the path since the start")
GOAL_ERROR = Report("goal error", "rad", "maximum distance of a joint from the goal")
STATE = Report("state", "", "state of the motion, a MotionState")
MOTIONS = Report("motions", "", "number of motions since the activation")
CONTACT_JOINT = Report("contact joint", "", "joint in contact; 0 for the tool")
CONTACT = Report(
    "contact", "Nm, N", "external torque of the joint in contact, or force at the tool"
)
MOTION_REPORTS = (
    TIME,
    DURATION,
    MAX_ERROR,
    GOAL_ERROR,
    STATE,
    MOTIONS,
    CONTACT_JOINT,
    CONTACT,
)


class MotionState(IntEnum):
    """State of a motion. Values above ``DONE`` are reasons of an abort."""

    IDLE = 0
    RUNNING = 1
    DONE = 2
    PATH_TOLERANCE_VIOLATED = 3
    GOAL_TOLERANCE_VIOLATED = 4
    BLOCKED = 5
    CONTACT = 6
    CONTACT_LOST = 7
    MODE_CHANGED = 8


@dataclass(frozen=True, eq=False)
class TrajectoryParams:
    """Parameters of joint motions: speed, tolerances and contact thresholds."""

    velocity_scaling: float = number(
        0.3, low=0.02, high=1,
        doc="speed towards a configuration as a fraction of the limits; its square scales "
        "acceleration, its cube jerk",
    )  # fmt: skip
    path_tolerance: JointVector = joint_vector(
        0.2, unit="rad", low=0, high=7,
        doc="maximum error during the motion per joint, above which the arm stops; 0 disables it",
    )  # fmt: skip
    goal_tolerance: JointVector = joint_vector(
        0.05, unit="rad", low=0, high=7,
        doc="maximum error at the end per joint; 0 disables it",
    )  # fmt: skip
    goal_time: float = number(
        1.0, unit="s", low=0, high=600,
        doc="time to come within goal_tolerance after the end, or to wait for an obstacle; "
        "0 is unlimited",
    )  # fmt: skip
    contact_torque: JointVector = joint_vector(
        "contact_torque", unit="Nm", low=0, high="torque",
        doc="external joint torque against the motion at which the arm stops; 0 disables it",
    )  # fmt: skip
    contact_force: float = number(
        0.0, unit="N", low=0, high=500,
        doc="force at the tool against the motion at which the arm stops; 0 disables it",
    )  # fmt: skip


class TrajectoryMonitor:
    """Monitor of the motions of one arm: starts them, checks tolerances, and ends them.

    A motion is *done* when the arm is within the goal tolerance. A motion is aborted in these
    cases, and the arm stops at its measured position:

    - An error exceeds the path tolerance.
    - The arm does not reach the goal tolerance in time.
    - The motion waits longer than ``goal_time`` for an obstacle (*blocked*).
    - The arm touches an object (*contact*).

    Args:
        motion: Motion of the arm.
        context: Context of the controllet.
        place: Index of the arm in the controllet.
        blocked_by: Function that receives a joint velocity (n,) [rad/s] of the arm. It returns as
            text the reason why features reduce this velocity.

    Attributes:
        state: State of the newest motion.
        presses: True if the arm exerts a desired force. Contact then does not end a motion.

    Thread: control.
    """

    def __init__(
        self,
        motion: JointMotion,
        context: Context,
        blocked_by: Callable[[Vector], str],
        place: int = 0,
    ) -> None:
        self._motion, self._arm_index, n_joints = motion, place, context.joints[place]
        self._reported = AbortNotices(context, place)
        self._blocked_by = blocked_by
        self._to_goal = np.zeros(n_joints)
        self._tau_ext, self._slack = np.zeros(n_joints), np.zeros(n_joints)
        self._contact = (0, 0.0)
        self._desired_tolerances = np.zeros(2 * n_joints + 1)
        self._path_bound, self._goal_bound = np.zeros(n_joints), np.zeros(n_joints)
        self._min_path_error = self._goal_time = np.inf
        self.state = MotionState.IDLE
        self._ends_as = MotionState.IDLE
        self._motions, self._largest, self._late = 0, 0.0, 0.0
        self._blocked = self._crept = self._stood = 0.0
        self.presses = False

    def set_params(self, params: TrajectoryParams, context: Context) -> None:
        self._params = params
        self._motion.set_speed(params.velocity_scaling)
        max_value, self._own_path, self._own_goal = (
            context.per_arm(value)[self._arm_index]
            for value in (params.contact_torque, params.path_tolerance, params.goal_tolerance)
        )
        self._slack[:] = np.where(
            max_value > 0.0, 1.0 / np.where(max_value > 0.0, max_value, 1.0), 0.0
        )
        self._set_tolerances()

    def _set_tolerances(self) -> None:
        p, requested = self._params, self._desired_tolerances
        own = np.concatenate([self._own_path, self._own_goal, [p.goal_time]])
        # 0 in the trajectory selects the parameter. Negative or 0 in both means no limit.
        bounds = np.where(requested == 0.0, own, requested)
        bounds[bounds <= 0.0] = np.inf
        self._path_bound[:], self._goal_bound[:] = np.split(bounds[:-1], 2)
        self._min_path_error, self._goal_time = float(self._path_bound.min()), float(bounds[-1])

    def start(self, q: Vector, dq: Vector) -> None:
        """Start to monitor an arm that brakes to rest, and call ``reset``.

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, (n,) [rad/s].
        """
        self._motion.rest(q, dq)
        self.reset()

    def reset(self) -> None:
        """Set ``state`` to ``IDLE``, and clear the errors and the number of motions."""
        self.state = self._ends_as = MotionState.IDLE
        self._motions, self._largest = 0, 0.0
        self._contact = (0, 0.0)
        self._reported.forget()

    def start_motion(self, channel: str, target: TrajectoryTarget) -> None:
        """Start a motion to the target, or stop if its trajectory has no points.

        Args:
            channel: Channel that received the target: ``joint`` or ``trajectory``.
            target: Target of the controllet.
        """
        motion, index = self._motion, self._arm_index
        self._report_blocked_stream()
        count = int(target.count[index][0])
        self._ends_as = MotionState.DONE
        if channel == "joint":
            self._desired_tolerances[:] = 0.0
            motion.go_to(target.q[index])
        elif count:
            self._desired_tolerances[:] = target.tolerances[index]
            motion.follow(target.points[index], count)
        else:
            self._ends_as = MotionState.IDLE
            motion.stop()
        self._set_tolerances()
        self.state, self._largest, self._late = MotionState.RUNNING, 0.0, 0.0
        self._blocked = self._crept = 0.0
        self._contact = (0, 0.0)
        self._motions += 1

    def _report_blocked_stream(self) -> None:
        # Sum over the motions of a stream: time stopped minus time in motion. It grows while an
        # obstacle stops every motion.
        stood = self._stood + self._crept - self._motion.time
        stood = min(max(stood, 0.0), 2.0 * self._goal_time)
        self._stood = stood if self.state is MotionState.RUNNING else 0.0
        if self._crept and self._stood > self._goal_time:
            self._reported.report_blocked(self._blocked_by(self._motion.path_dq), self._goal_time)

    @property
    def stops(self) -> bool:
        """True while the motion stops on its path, before its goal."""
        return self._ends_as is MotionState.IDLE

    def stop(self) -> None:
        """Stop on the path, because the motion of another arm was aborted."""
        self._motion.stop()
        self._ends_as = MotionState.IDLE

    def end(self, reason: MotionState) -> None:
        """Set ``state`` to the abort reason of a motion that the controllet has stopped."""
        if self.state is MotionState.RUNNING:
            self.state = reason

    def abort_behind_commands(self, q: Vector, dq: Vector) -> None:
        """Abort a motion because the commanded positions are too far behind its reference.

        The arm brakes from the commanded positions and velocities to rest.

        Args:
            q: Commanded positions, (n,) [rad].
            dq: Commanded velocities, (n,) [rad/s].
        """
        self._motion.rest(q, dq)
        self.end(MotionState.PATH_TOLERANCE_VIOLATED)

    def forget(self) -> None:
        """Set ``state`` to ``IDLE``, unless a motion is running."""
        if self.state is not MotionState.RUNNING:
            self.state = MotionState.IDLE

    def check(self, state: ArmState, error: Vector, period: float, report: Vector) -> None:
        """Compare errors with tolerances, and write the reports.

        Args:
            state: State of the arm.
            error: Error from the measured positions to the reference, (n,) [rad].
            period: Cycle time [s].
            report: Report values of the controllet, which start with ``MOTION_REPORTS``.
        """
        motion = self._motion
        self._reported.cycles += 1
        to_goal = subtract(motion.goal, state.q, self._to_goal).tolist()
        goal_error = max(max(to_goal), -min(to_goal))
        if self.state is MotionState.RUNNING:
            errors = error.tolist()
            largest = max(max(errors), -min(errors))
            self._largest = max(self._largest, largest)
            if not motion.moving:
                self._end_or_abort_late(state, goal_error, period)
            elif largest > self._min_path_error and self._leaves_path(error):
                joint, size, max_value = _worst(error, self._path_bound)
                self._abort(state, MotionState.PATH_TOLERANCE_VIOLATED)
                self._reported.tolerance_exceeded(
                    joint, size, max_value, "path", "during the motion"
                )
            elif not self.presses and self._detects_contact(state):
                self._abort(state, MotionState.CONTACT)
                self._reported.contact(*self._contact)
            elif motion.rate < 1.0 or self._blocked:
                self._abort_if_blocked(state, period)
        report[0], report[1] = motion.time + self._late, motion.duration
        report[2], report[3] = self._largest, goal_error
        report[4], report[5] = self.state, self._motions
        report[6], report[7] = self._contact

    def _abort_if_blocked(self, state: ArmState, period: float) -> None:
        motion = self._motion
        if motion.rate < _SLOWED_FRACTION and motion.speed_fraction < _STOPPED_FRACTION:
            self._crept += period
        self._blocked = self._blocked + period if motion.rate < _STOPPED_FRACTION else 0.0
        if self._blocked > self._goal_time:
            words = self._blocked_by(self._motion.path_dq)
            self._abort(state, MotionState.BLOCKED)
            self._reported.report_blocked(words, self._goal_time)

    def _detects_contact(self, state: ArmState) -> bool:
        measured = multiply(state.tau_ext, self._slack, self._tau_ext)
        fractions = np.abs(measured, measured).tolist()
        fraction, force = max(fractions), 0.0
        if self._params.contact_force > 0.0:
            x, y, z = state.wrench_ext_in_base[:3].tolist()
            force = math.sqrt(x * x + y * y + z * z)
        if fraction <= 1.0 and force <= self._params.contact_force:
            return False
        # Contact counts only against the motion, and not while the arm brakes to a stop.
        if dot(state.tau_ext, self._motion.dq) >= 0.0 or self._ends_as is MotionState.IDLE:
            return False
        joint = fractions.index(fraction)
        self._contact = (joint + 1, float(state.tau_ext[joint])) if fraction > 1.0 else (0, force)
        return True

    def _leaves_path(self, error: Vector) -> bool:
        beyond = np.abs(error) > self._path_bound
        return self._ends_as is MotionState.DONE and bool(beyond.any())

    def _end_or_abort_late(self, state: ArmState, goal_error: float, period: float) -> None:
        if self._ends_as is MotionState.IDLE or (np.abs(self._to_goal) <= self._goal_bound).all():
            self.state = self._ends_as
        elif self._late > self._goal_time:
            joint, size, max_value = _worst(self._to_goal, self._goal_bound)
            self._abort(state, MotionState.GOAL_TOLERANCE_VIOLATED)
            self._reported.tolerance_exceeded(
                joint, size, max_value, "goal", f"{self._goal_time:g} s after the end"
            )
        else:
            self._late += period

    def _abort(self, state: ArmState, reason: MotionState) -> None:
        self.state = reason
        self._motion.stop_from(state.q, state.dq)


def _worst(error: Vector, bound: Vector) -> tuple[int, float, float]:
    size = np.abs(error)
    joint = int((size / bound).argmax())
    return joint + 1, float(size[joint]), float(bound[joint])
