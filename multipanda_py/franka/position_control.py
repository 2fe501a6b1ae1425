# SPDX-License-Identifier: Apache-2.0
"""One motion under the robot's own joint control, bounded last and ended at rest."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from multipanda_py.drivers.loop_connection import LoopConnection
from multipanda_py.drivers.memory import DriverWord
from multipanda_py.franka.driver_settings import DriverSettings
from multipanda_py.franka.joint_modes import PERIOD, JointMode
from multipanda_py.franka.motion import MOVE, finish, publish, refuse_settings
from multipanda_py.franka.speed_near_limits import SpeedNearLimits
from multipanda_py.limits import ArmLimits
from multipanda_py.planning.motion_limiter import MotionLimiter

SILENCE = 0.02
"""Time without an answer after which the motion ends, once the arm rests [s]."""
_SAME = 2e-6
"""What positions may differ by that the robot says with seven digits [rad]."""


class PositionControl:
    """Answer states with the loop's positions; brake where there are none.

    The command goes on from what the robot says that it executes, so that a lost one, for which it
    goes on with constant acceleration, cannot become a step. Velocities are those that
    lead from there to the loop's positions: what robot and loop add up cannot drift apart.

    Args:
        loop: The way to the loop.
        settings: Of the driver.
        kind: What is executed, as the loop calls it.
        mode: How the robot takes it.
    """

    def __init__(
        self, loop: LoopConnection, settings: DriverSettings, kind: int, mode: JointMode
    ) -> None:
        self._loop, self._kind, self._mode = loop, kind, mode
        self._budget = int(settings.answer_budget * 1e9)
        limits = _limits(settings)
        self._limiter = MotionLimiter(limits, PERIOD, fastest=SpeedNearLimits(limits))

    def run(self, handle: Any) -> tuple[str, str] | None:
        """Run until the loop is silent, wants something else or sends what cannot be executed.

        Args:
            handle: What the mode has started; it must not be used after this.

        Returns:
            Kind and sentence of the fault that it ends with, or None.

        Raises:
            RuntimeError: If the robot ends the motion (ControlException), or is gone.
        """
        loop, limiter, words = self._loop, self._limiter, self._loop.words
        command = self._mode.command
        loop.begin_motion(self._kind)
        reason: tuple[str, str] | None = None
        answered_at = -1.0
        stopping = False
        while True:
            words[DriverWord.READING] = 1
            state, _ = handle.readOnce()
            until = time.monotonic_ns() + self._budget
            now = state.time.to_sec()
            number = publish(loop, state, self._kind, MOVE)
            if answered_at < 0.0:
                answered_at = now
                limiter.start(np.array(state.q_d))
                loop.busy(0.0)
            else:
                self._catch_up(state)
            wanted = None if stopping else loop.wait(number, until)
            if wanted is not None and not math.isfinite(sum(wanted)):
                stopping, reason, wanted = True, ("position_invalid", _invalid(wanted)), None
            before = limiter.q.copy()
            if wanted is not None:
                limiter.follow(np.array(wanted))
                answered_at = now
                words[DriverWord.ANSWERED] += 1
            else:
                limiter.brake()
                words[DriverWord.LATE] += not stopping
                silent = now - answered_at >= SILENCE
                if limiter.at_rest and (stopping or silent):
                    finish(loop, handle, command(before, limiter.q))
                    return reason if stopping else ("loop_silent", _silent(now - answered_at))
            handle.writeOnce(command(before, limiter.q))
            if words[DriverWord.ENABLED] != self._kind or loop.ended():
                stopping = True
            if loop.has_lines():
                refuse_settings(loop, self._mode.name)

    def _catch_up(self, state: Any) -> None:
        """Go on from what the robot executes, if that is not what it was told."""
        executed = np.array(state.q_d)
        if (np.abs(executed - self._limiter.q) > _SAME).any():
            self._limiter.start(executed, np.array(state.dq_d), np.array(state.ddq_d))


def _limits(settings: DriverSettings) -> ArmLimits:
    lower, upper, velocity, acceleration, jerk = map(np.array, settings.motion_limits)
    torque = np.array(settings.torque_limits)  # which positions have nothing to do with
    return ArmLimits(lower, upper, velocity, acceleration, jerk, torque, 1e3 + 0.0 * torque)


def _silent(seconds: float) -> str:
    return (
        f"the control loop has not answered for {1e3 * seconds:.0f} ms; the arm has braked "
        "and the motion ended; recover to go on"
    )


def _invalid(q: tuple[float, ...]) -> str:
    return (
        f"the control loop sent the positions {list(q)}, allowed are finite numbers; the arm has "
        "braked and the motion ended; recover to go on"
    )
