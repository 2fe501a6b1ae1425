# SPDX-License-Identifier: Apache-2.0
"""How a motion of the joints goes: errors, tolerances, obstacles, contact, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from multipanda_py.context import Context
from multipanda_py.parameters import JointVector, joint_vector, number
from multipanda_py.planning.trajectory.joint_motion import JointMotion
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Report, TrajectoryTarget

PAUSE = 1.0
"""Ends for one reason that follow one another sooner are one thing, of a stream [s]."""


class SaidEnds:
    """Give notice of the ends of an arm's motions, once each.

    Who sends postures one after another, many times a second, begins as many motions; of those
    that end for one reason the first is said. It is said again after a second without.

    Args:
        context: Of the law.
        place: Of the arm in it.

    Attributes:
        cycles: Until now; its owner counts.

    Thread: control.
    """

    def __init__(self, context: Context, place: int) -> None:
        self._context, self._arm = context, context.arms[place]
        self._pause = PAUSE / context.period
        self.forget()

    def forget(self) -> None:
        """Begin anew: nothing was said."""
        self.cycles, self._last, self._reason = 0, 0, ""

    def away(self, joint: int, size: float, most: float, from_what: str, when: str) -> None:
        """Say that a joint, from 1, was so far [rad or m] from the path or the goal."""
        unit = self._arm.limits.unit(joint - 1)
        name = f"{from_what}_tolerance"
        text = f"joint {joint} was {size:.3f} {unit} from the {from_what} {when}"
        self._say(name, f"{text}, allowed {most:g} {unit} ({name})", "gives way")

    def contact(self, joint: int, size: float) -> None:
        """Say what pressed: the torque of a joint, from 1 [Nm or N], or 0 and a force [N]."""
        text = f"contact: force at the tool reached {size:.1f} N (contact_force)"
        if joint:
            unit = self._arm.limits.unit(joint - 1, "Nm")
            text = (
                f"contact: external torque of joint {joint} reached {size:.1f} {unit} "
                "(contact_torque)"
            )
        self._say("contact", text, "gives way")

    def blocked(self, words: str, waited: float) -> None:
        """Say what is in the way, and for how long the arm has waited for it to go [s]."""
        self._say("blocked", f"{words}; waited {waited:g} s (goal_time)", "stays there")

    def _say(self, reason: str, text: str, then: str) -> None:
        is_repeated = reason == self._reason and self.cycles - self._last < self._pause
        self._last, self._reason = self.cycles, reason
        if not is_repeated:
            self._context.notify(
                f"{self._arm.name}: motion ended before its goal: {text}; the arm {then}"
            )


_dot, _multiply, _subtract = np.dot, np.multiply, np.subtract
_SLOWED = 0.5
"""Share of its own speed below which a motion counts as slowed down by an obstacle."""
_STANDS = 0.02
"""Share of its own speed below which a motion counts as stopped by an obstacle; one that is
slowed down counts in a stream below this share of the speed that motions have."""

TIME = Report("time", "s", "since the motion began")
DURATION = Report("duration", "s", "of the motion")
LARGEST_ERROR = Report("largest error", "rad", "of a joint behind the path, until now")
GOAL_ERROR = Report("goal error", "rad", "largest distance of a joint from the goal")
STATE = Report("state", "", "how the motion is doing, a MotionState")
MOTIONS = Report("motions", "", "begun since the activation")
CONTACT_JOINT = Report("contact joint", "", "that met something; 0 for the tool")
CONTACT = Report("contact", "Nm, N", "torque of that joint, or force at the tool")
MOTION_REPORTS = (
    TIME,
    DURATION,
    LARGEST_ERROR,
    GOAL_ERROR,
    STATE,
    MOTIONS,
    CONTACT_JOINT,
    CONTACT,
)


class MotionState(IntEnum):
    """How a motion is doing, as reported; beyond ``DONE`` it ended before its goal."""

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
class MotionParams:
    """Speed and tolerances of motions."""

    speed: float = number(
        0.3, low=0.02, high=1,
        doc="share of the speed limits for going to a posture; acceleration by its square, "
        "jerk by its cube",
    )  # fmt: skip
    path_tolerance: JointVector = joint_vector(
        0.2, unit="rad", low=0, high=7,
        doc="largest error on the way, per joint; beyond it the arm stops; 0 is any",
    )  # fmt: skip
    goal_tolerance: JointVector = joint_vector(
        0.05, unit="rad", low=0, high=7,
        doc="largest error at the end, per joint; 0 is any",
    )  # fmt: skip
    goal_time: float = number(
        1.0, unit="s", low=0, high=600,
        doc="time after the end to come within goal_tolerance, or to wait for an obstacle to go; "
        "0 is any",
    )  # fmt: skip
    contact_torque: JointVector = joint_vector(
        "contact_torque", unit="Nm", low=0, high="torque",
        doc="external joint torque against the motion at which the arm stops; 0 is any",
    )  # fmt: skip
    contact_force: float = number(
        0.0, unit="N", low=0, high=500,
        doc="force at the tool against the motion at which the arm stops; 0 is any",
    )  # fmt: skip


class MotionWatch:
    r"""Begin the motions of one arm that are asked for, judge how they go, and end them.

    A motion ends *done* when the arm is within the goal tolerance. If an error on the way is
    beyond the path tolerance, or the arm is not within the goal tolerance in time, the arm
    comes to rest from where it is and stays there, so that it does not go on pressing against
    what stopped it. One that waits for an obstacle for longer than ``goal_time`` ends *blocked*,
    one that meets something in *contact*.

    How one ends before its goal is an event, once: what a stream of postures meets is one thing.

    Args:
        motion: Of the arm.
        context: Of its law.
        place: Of the arm in its law.
        in_the_way: Says what :meth:`.Controllet.pace` keeps a velocity (n,) [rad/s] of the arm
            from.

    Attributes:
        state: How the newest motion is doing.
        presses: Whether the arm is meant to press on something: touching ends no motion then.

    Thread: control.
    """

    def __init__(
        self,
        motion: JointMotion,
        context: Context,
        in_the_way: Callable[[Vector], str],
        place: int = 0,
    ) -> None:
        self._motion, self._place, n_joints = motion, place, context.joints[place]
        self._said = SaidEnds(context, place)
        self._in_the_way = in_the_way
        self._to_goal = np.zeros(n_joints)
        self._felt, self._slack = np.zeros(n_joints), np.zeros(n_joints)
        self._contact = (0, 0.0)
        self._asked = np.zeros(2 * n_joints + 1)
        self._path_bound, self._goal_bound = np.zeros(n_joints), np.zeros(n_joints)
        self._path_least = self._goal_time = np.inf
        self.state = MotionState.IDLE
        self._ends_as = MotionState.IDLE
        self._motions, self._largest, self._late = 0, 0.0, 0.0
        self._blocked = self._crept = self._stood = 0.0
        self.presses = False

    def set_params(self, params: MotionParams, context: Context) -> None:
        """Take speed and tolerances over."""
        self._params = params
        self._motion.set_speed(params.speed)
        most, self._own_path, self._own_goal = (
            context.per_arm(value)[self._place]
            for value in (params.contact_torque, params.path_tolerance, params.goal_tolerance)
        )
        self._slack[:] = np.where(most > 0.0, 1.0 / np.where(most > 0.0, most, 1.0), 0.0)
        self._set_tolerances()

    def _set_tolerances(self) -> None:
        """Choose what the trajectory asks for, else the parameters; zero and none are inf."""
        p, asked = self._params, self._asked
        own = np.concatenate([self._own_path, self._own_goal, [p.goal_time]])
        bounds = np.where(asked == 0.0, own, asked)
        bounds[bounds <= 0.0] = np.inf
        self._path_bound[:], self._goal_bound[:] = np.split(bounds[:-1], 2)
        self._path_least, self._goal_time = float(self._path_bound.min()), float(bounds[-1])

    def start(self, q: Vector, dq: Vector) -> None:
        """Come to rest from positions (n,) [rad] and velocities (n,) [rad/s], and forget."""
        self._motion.rest(q, dq)
        self.reset()

    def reset(self) -> None:
        """Forget all motions until now."""
        self.state = self._ends_as = MotionState.IDLE
        self._motions, self._largest = 0, 0.0
        self._contact = (0, 0.0)
        self._said.forget()

    def begin(self, channel: str, target: TrajectoryTarget) -> None:
        """Begin a motion, or a stop."""
        motion, place = self._motion, self._place
        self._look_at_stream()
        count = int(target.count[place][0])
        self._ends_as = MotionState.DONE
        if channel == "joint":
            self._asked[:] = 0.0
            motion.go_to(target.q[place])
        elif count:
            self._asked[:] = target.tolerances[place]
            motion.follow(target.points[place], count)
        else:
            self._ends_as = MotionState.IDLE
            motion.stop()
        self._set_tolerances()
        self.state, self._largest, self._late = MotionState.RUNNING, 0.0, 0.0
        self._blocked = self._crept = 0.0
        self._contact = (0, 0.0)
        self._motions += 1

    def _look_at_stream(self) -> None:
        """Say that motions stand in front of something, each of which the next one replaces.

        Each begins from rest, and is hardly faster when it is replaced than what is in the way
        allows: an arm that stands has a good share of its own speed then.
        """
        stood = self._stood + self._crept - self._motion.time  # stood more than under way
        stood = min(max(stood, 0.0), 2.0 * self._goal_time)
        self._stood = stood if self.state is MotionState.RUNNING else 0.0
        if self._crept and self._stood > self._goal_time:
            self._said.blocked(self._in_the_way(self._motion.own_dq), self._goal_time)

    @property
    def stops(self) -> bool:
        """Whether a motion is to come to rest on its way, and not at its goal."""
        return self._ends_as is MotionState.IDLE

    def stop(self) -> None:
        """Come to rest on the way, as the motion of another arm has ended before its goal."""
        self._motion.stop()
        self._ends_as = MotionState.IDLE

    def end(self, reason: MotionState) -> None:
        """Say why a motion that the law has stopped ended, if one was under way."""
        if self.state is MotionState.RUNNING:
            self.state = reason

    def lose(self, q: Vector, dq: Vector) -> None:
        """Come to rest from commands that do not keep up with the motion, which ends by that.

        Args:
            q: Commanded positions, (n,) [rad].
            dq: Commanded velocities, (n,) [rad/s].
        """
        self._motion.rest(q, dq)
        self.end(MotionState.PATH_TOLERANCE_VIOLATED)

    def forget(self) -> None:
        """Report the end of the last motion no more."""
        if self.state is not MotionState.RUNNING:
            self.state = MotionState.IDLE

    def judge(self, state: ArmState, error: Vector, period: float, report: Vector) -> None:
        """Compare errors with tolerances, and report.

        Args:
            state: Of the arm.
            error: From measured positions to the reference, (n,) [rad].
            period: Cycle time [s].
            report: Of the law, whose first names are :data:`MOTION_REPORTS`.
        """
        motion = self._motion
        self._said.cycles += 1
        to_goal = _subtract(motion.goal, state.q, self._to_goal).tolist()
        goal_error = max(max(to_goal), -min(to_goal))
        if self.state is MotionState.RUNNING:
            errors = error.tolist()
            largest = max(max(errors), -min(errors))
            self._largest = max(self._largest, largest)
            if not motion.moving:
                self._settle(state, goal_error, period)
            elif largest > self._path_least and self._leaves_path(error):
                joint, size, most = _worst(error, self._path_bound)
                self._give_way(state, MotionState.PATH_TOLERANCE_VIOLATED)
                self._said.away(joint, size, most, "path", "on the way")
            elif not self.presses and self._meets_something(state):
                self._give_way(state, MotionState.CONTACT)
                self._said.contact(*self._contact)
            elif motion.rate < 1.0 or self._blocked:
                self._wait(state, period)
        report[0], report[1] = motion.time + self._late, motion.duration
        report[2], report[3] = self._largest, goal_error
        report[4], report[5] = self.state, self._motions
        report[6], report[7] = self._contact

    def _wait(self, state: ArmState, period: float) -> None:
        """Count for how long an obstacle has been in the way."""
        motion = self._motion
        if motion.rate < _SLOWED and motion.share_of_speed < _STANDS:
            self._crept += period
        self._blocked = self._blocked + period if motion.rate < _STANDS else 0.0
        if self._blocked > self._goal_time:
            words = self._in_the_way(self._motion.own_dq)
            self._give_way(state, MotionState.BLOCKED)
            self._said.blocked(words, self._goal_time)

    def _meets_something(self, state: ArmState) -> bool:
        """Whether something beyond the thresholds is in the way; a stop goes on regardless."""
        felt = _multiply(state.tau_ext, self._slack, self._felt)
        shares = np.abs(felt, felt).tolist()
        share, force = max(shares), 0.0
        if self._params.contact_force > 0.0:
            x, y, z = state.wrench_ext_in_base[:3].tolist()
            force = math.sqrt(x * x + y * y + z * z)
        if share <= 1.0 and force <= self._params.contact_force:
            return False
        if _dot(state.tau_ext, self._motion.dq) >= 0.0 or self._ends_as is MotionState.IDLE:
            return False
        joint = shares.index(share)
        self._contact = (joint + 1, float(state.tau_ext[joint])) if share > 1.0 else (0, force)
        return True

    def _leaves_path(self, error: Vector) -> bool:
        """Whether an error is beyond its tolerance; a stop is not judged by its path."""
        beyond = np.abs(error) > self._path_bound
        return self._ends_as is MotionState.DONE and bool(beyond.any())

    def _settle(self, state: ArmState, goal_error: float, period: float) -> None:
        """End a motion that has arrived, or wait for it."""
        if self._ends_as is MotionState.IDLE or (np.abs(self._to_goal) <= self._goal_bound).all():
            self.state = self._ends_as
        elif self._late > self._goal_time:
            joint, size, most = _worst(self._to_goal, self._goal_bound)
            self._give_way(state, MotionState.GOAL_TOLERANCE_VIOLATED)
            self._said.away(joint, size, most, "goal", f"{self._goal_time:g} s after the end")
        else:
            self._late += period

    def _give_way(self, state: ArmState, reason: MotionState) -> None:
        self.state = reason
        self._motion.give_way(state.q, state.dq)


def _worst(error: Vector, bound: Vector) -> tuple[int, float, float]:
    """Return the joint that is beyond its bound the most, from 1, by how much, and the bound."""
    size = np.abs(error)
    joint = int((size / bound).argmax())
    return joint + 1, float(size[joint]), float(bound[joint])
