# SPDX-License-Identifier: Apache-2.0
"""Motion of a Franka robot under its own position or velocity control, with limited commands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import POSITIONS, VELOCITIES, DriverWord
from multipanda_py.hardware.franka.robot_connection import DriverSettings
from multipanda_py.hardware.franka.torque_control import (
    MOVE_MODE,
    finish,
    publish,
    refuse_settings,
)
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.robots.franka import DECELERATION, LOWER_LIMITS, UPPER_LIMITS, velocity_towards
from multipanda_py.state import ArmLimits, Vector

PERIOD = 1e-3
"""Cycle time of the FCI [s]."""


@dataclass(frozen=True)
class JointMode:
    """Joint position or joint velocity mode of the robot.

    Attributes:
        name: Name for messages.
        start: Function that starts a motion. Its arguments are a ``pylibfranka.Robot`` and the
            name of the internal controller with which the robot follows commands.
        command: Function that returns the libfranka command. Its arguments are the previous and
            the new commanded positions, (n,) [rad] each.
    """

    name: str
    start: Callable[[Any, str], Any]
    command: Callable[[Vector, Vector], Any]


def joint_modes() -> dict[int, JointMode]:
    """Return the joint modes by kind of command: ``POSITIONS`` and ``VELOCITIES``."""
    import pylibfranka as franka

    modes = {
        "joint_impedance": franka.ControllerMode.JointImpedance,
        "cartesian_impedance": franka.ControllerMode.CartesianImpedance,
    }
    return {
        POSITIONS: JointMode(
            "position",
            lambda robot, name: robot.start_joint_position_control(modes[name]),
            lambda _, q: franka.JointPositions(q.tolist()),
        ),
        VELOCITIES: JointMode(
            "velocity",
            lambda robot, name: robot.start_joint_velocity_control(modes[name]),
            lambda before, q: franka.JointVelocities(((q - before) / PERIOD).tolist()),
        ),
    }


_REACTION_TIME = 0.005
"""Time in which full acceleration can change to full braking, at the jerk limit of commands
[s]."""
_BRAKING_FRACTION = 0.9
"""Maximum fraction of the acceleration limit for braking towards a position limit."""


class SpeedNearLimits:
    """Joint speed limit that decreases near position limits, so that the arm can always brake."""

    def __init__(self, limits: ArmLimits) -> None:
        self._braking = np.minimum(DECELERATION, _BRAKING_FRACTION * limits.acceleration)

    def __call__(self, q: Vector, dq: Vector) -> Vector:
        """Return the maximum joint speeds, (n,) [rad/s].

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, whose signs are the directions of motion, (n,) [rad/s].
        """
        distance = np.where(dq > 0.0, UPPER_LIMITS - q, q - LOWER_LIMITS)
        return velocity_towards(distance - _REACTION_TIME * np.abs(dq), self._braking)


COMMAND_TIMEOUT = 0.02
"""Time without a command after which the motion ends, once the arm rests [s]."""
MAX_CORRECTION_SPEED = 0.01
"""Maximum speed from the robot's ``q_d`` to the loop's positions while no motion is commanded
[rad/s]."""
MAX_UNFOLLOWED_CYCLES = 25
"""Number of consecutive cycles after which the motion ends if ``q_d``, the command that the robot
reports, differs from the sent one. A robot that loses 20 consecutive commands ends the motion
itself."""
MAX_STATE_AGE = 850_000
"""Age of a state after which it is not answered any more [ns]. By then, the robot replaces the
missing command by motion with constant acceleration, and a later command must have no effect."""
_ACCELERATION_FRACTION, _JERK_FRACTION = 0.95, 0.8
"""Fractions of the limits of acceleration and jerk within which commands stay. The margins are for
checks of robots across lost commands, and for the single precision of ``q_d``."""
_ROUNDING_ERROR = 2.5e-7
"""Maximum rounding error of ``q_d`` in single precision [rad]."""
_FOLLOWING_TOLERANCE = 2e-6
"""Maximum difference between ``q_d`` and the command of a robot that follows it [rad]."""


class PositionControl:
    """Motion that answers states with the positions of the loop, and brakes without commands.

    Each command continues from ``q_d``, the last command that the robot reports as used. If no
    command arrives in time, the robot *bridges* the cycle: it moves on with constant acceleration.
    A late command for this cycle must have no effect. Therefore no command is sent in two cases.

    - The state is older than :data:`MAX_STATE_AGE`.
    - The robot has bridged the last cycle although a command was sent in time.

    Velocity commands also correct the difference between ``q_d`` and the positions of the loop, at
    most at the commanded speed, or at :data:`MAX_CORRECTION_SPEED` at rest. If ``q_d`` does not
    follow the commands, the motion ends.

    Args:
        loop: Connection to the loop.
        settings: Settings of the driver.
        kind: Kind of command, ``POSITIONS`` or ``VELOCITIES``.
        mode: Joint mode of the robot for this kind.
        age: Function that returns the age of the state that was read last [ns].
    """

    def __init__(
        self,
        loop: DriverSide,
        settings: DriverSettings,
        kind: int,
        mode: JointMode,
        age: Callable[[], int],
    ) -> None:
        self._loop, self._kind, self._mode = loop, kind, mode
        self._budget = int(settings.answer_budget * 1e9)
        self._age = age
        # Only a simulated robot that waits for every answer permits a budget of a whole period.
        self._waits = self._budget >= PERIOD * 1e9
        limits = _limits(settings)
        self._limiter = MotionLimiter(
            limits, PERIOD, fastest=SpeedNearLimits(limits), catch_up=MAX_CORRECTION_SPEED
        )
        # Number of consecutive cycles in which q_d differed from the command.
        self._unfollowed_cycles = 0
        self._unsent = False  # True if the last command was omitted.
        self._bridge = self._limiter.q.copy()  # Next q_d if the robot bridges the last command.
        self._bridged = False  # True if the robot bridged a command that was sent in time.

    def run(self, handle: Any) -> tuple[str, str] | None:
        """Run until the loop does not respond, stops the motion or sends an invalid command.

        Args:
            handle: Motion that :attr:`JointMode.start` returned; it must not be used afterwards.

        Returns:
            Kind and text of the fault that ended the motion; None if the loop stopped it.

        Raises:
            RuntimeError: If the robot ends the motion (ControlException), or the link is broken.
        """
        loop, limiter, words = self._loop, self._limiter, self._loop.words
        command = self._mode.command
        loop.start_motion(self._kind)
        reason: tuple[str, str] | None = None
        answered_at = -1.0
        stopping = False
        while True:
            words[DriverWord.READING] = 1
            state, _ = handle.readOnce()
            until = time.monotonic_ns() + self._budget
            now = state.time.to_sec()
            number = publish(loop, state, self._kind, MOVE_MODE)
            is_first = answered_at < 0.0
            if is_first:
                answered_at = now
                limiter.start(np.array(state.q_d))
                self._unfollowed_cycles, self._unsent, self._bridged = 0, False, False
                loop.report_busy(0.0)
            elif reason is None and (strayed := self._continue_from_executed(state)):
                stopping, reason = True, ("command_not_followed", strayed)
            desired = None if stopping else loop.wait(number, until)
            if desired is not None and not math.isfinite(sum(desired)):
                stopping, reason, desired = True, ("position_invalid", _invalid(desired)), None
            if is_first:  # The robot requires that a motion begins at rest.
                desired = None
            before = limiter.q.copy()
            self._bridge = _bridged_positions(state)
            if desired is not None:
                limiter.follow(np.array(desired))
                answered_at = now
                words[DriverWord.ANSWERED] += 1
            else:
                limiter.brake()
                words[DriverWord.LATE] += not stopping
                silent = now - answered_at >= COMMAND_TIMEOUT
                if limiter.at_rest and (stopping or silent):
                    finish(loop, handle, command(before, limiter.q))
                    return reason if stopping else ("loop_silent", _silent(now - answered_at))
            self._unsent = not self._waits and (self._bridged or self._age() > MAX_STATE_AGE)
            if not self._unsent:
                handle.writeOnce(command(before, limiter.q))
            if words[DriverWord.ENABLED] != self._kind or loop.ended():
                stopping = True
            if loop.has_lines():
                refuse_settings(loop, self._mode.name)

    def _continue_from_executed(self, state: Any) -> str:
        """Continue from ``q_d``; return a reason to end the motion, or an empty string."""
        executed = np.array(state.q_d)
        gap = executed - self._limiter.q
        size = float(np.abs(gap).max())
        self._bridged = not self._unsent and bool(
            size > _ROUNDING_ERROR and (np.abs(executed - self._bridge) <= _ROUNDING_ERROR).all()
        )
        if size <= _ROUNDING_ERROR and not self._unsent:
            self._unfollowed_cycles = 0
            return ""
        self._unfollowed_cycles = (
            self._unfollowed_cycles + 1 if size > _FOLLOWING_TOLERANCE and not self._unsent else 0
        )
        # The robot does not follow the commands.
        if self._unfollowed_cycles >= MAX_UNFOLLOWED_CYCLES:
            joint = int(np.abs(gap).argmax())
            return _not_followed(joint, float(executed[joint]), float(gap[joint]))
        self._limiter.correct(executed, np.array(state.dq_d), np.array(state.ddq_d))
        return ""


def _bridged_positions(state: Any) -> Vector:
    """Return ``q_d`` of the next cycle if no command arrives in this cycle, (n,) [rad]."""
    rate = np.array(state.dq_d) + PERIOD * np.array(state.ddq_d)
    return np.asarray(np.array(state.q_d) + PERIOD * rate)


def _limits(settings: DriverSettings) -> ArmLimits:
    lower, upper, velocity, acceleration, jerk = map(np.array, settings.motion_limits)
    # ``ArmLimits`` needs limits of torque and torque rate, which the limiter of positions ignores.
    torque = np.array(settings.torque_limits)
    rate = np.full_like(torque, 1e3)
    return ArmLimits(
        lower,
        upper,
        velocity,
        _ACCELERATION_FRACTION * acceleration,
        _JERK_FRACTION * jerk,
        torque,
        rate,
    )


def _silent(seconds: float) -> str:
    return (
        f"no command from the control loop for {1e3 * seconds:.0f} ms; the arm has braked "
        "and the motion ended. Recover the arm to continue"
    )


def _not_followed(joint: int, q_d: float, gap: float) -> str:
    return (
        f"the robot reports q_d of joint {joint + 1} as {q_d:.5f} rad, {gap:+.2g} rad from the "
        f"position that was sent, for {MAX_UNFOLLOWED_CYCLES} consecutive cycles; the motion "
        "ends. Use controllets that command torques, or a robot whose q_d is the executed command"
    )


def _invalid(q: tuple[float, ...]) -> str:
    return (
        f"the control loop sent the positions {list(q)}, allowed finite numbers; the arm has "
        "braked and the motion ended. Recover the arm to continue"
    )
