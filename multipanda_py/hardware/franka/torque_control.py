# SPDX-License-Identifier: Apache-2.0
"""Motion of a Franka robot under torque control."""

from __future__ import annotations

import time
from typing import Any

from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import TORQUES, DriverWord
from multipanda_py.hardware.driver.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.hardware.franka.robot_connection import DriverSettings

MOVE_MODE = 2
"""Number of the mode of a moving robot."""
FINISH_TIME = 1.5
"""Maximum time that libfranka takes to end a motion [s]."""


def publish(loop: DriverSide, state: Any, executing: int, mode: int) -> int:
    """Publish a state of libfranka to the loop; return the number of the published state.

    Args:
        loop: Connection to the loop.
        state: State of libfranka.
        executing: Kind of commands that the robot executes; 0 for none.
        mode: Number of the robot mode.
    """
    return loop.publish(
        state.time.to_sec(), executing, mode,
        *state.q, *state.dq, *state.tau_J, *state.tau_ext_hat_filtered,
    )  # fmt: skip


def refuse_settings(loop: DriverSide, control_name: str) -> None:
    """Reject new settings during a motion, in which a robot accepts none."""
    for _ in loop.lines():
        loop.send_message(
            settings="refused", text=f"the arm is under {control_name} control, not at rest"
        )


def finish(loop: DriverSide, handle: Any, last_command: Any) -> None:
    """End a motion of libfranka (``handle``), which blocks until the motion has ended."""
    loop.report_busy(FINISH_TIME)
    last_command.motion_finished = True
    handle.writeOnce(last_command)
    loop.report_busy(0.0)


_HALF_PERIOD = 0.0005  # Tolerance for the end of the decay [s].


class TorqueControl:
    """Motion under torque control: answers each state of the robot with the torque of the loop.

    If the loop sends no torque, the last one decays to zero, and the motion ends.
    """

    def __init__(self, loop: DriverSide, settings: DriverSettings) -> None:
        import pylibfranka  # Imported here, so that this module can be imported without it.

        self._loop, self._torques = loop, pylibfranka.Torques
        self._budget = int(settings.answer_budget * 1e9)
        self._limiter = TorqueLimiter(settings.torque_limits)

    def run(self, handle: Any) -> tuple[str, str] | None:
        """Run until the loop does not respond, stops the motion or sends an invalid command.

        Args:
            handle: Result of ``start_torque_control``; it must not be used afterwards.

        Returns:
            Kind and text of the fault that ended the motion; None if the loop stopped it.

        Raises:
            RuntimeError: If the robot ends the motion (ControlException), or the link is broken.
        """
        loop, limiter, words = self._loop, self._limiter, self._loop.words
        limiter.start()
        loop.start_motion()
        reason: tuple[str, str] | None = None
        answered_at = -1.0
        stopping = False
        while True:
            words[DriverWord.READING] = 1
            state, _ = handle.readOnce()
            until = time.monotonic_ns() + self._budget
            now = state.time.to_sec()
            number = publish(loop, state, TORQUES, MOVE_MODE)
            executed = state.tau_J_d
            if answered_at < 0.0:
                answered_at = now
                loop.report_busy(0.0)
            tau = None
            if not stopping:
                # While the loop computes, load the code of the answer into the processor caches,
                # so that the answer is sent sooner.
                self._torques(limiter.rehearse(executed))
                desired = loop.wait(number, until)
                if desired is None:
                    words[DriverWord.LATE] += 1
                else:
                    tau = limiter.answer(desired, executed)
                    if tau is None:
                        stopping = True
                        reason = ("torque_invalid", _invalid(desired))
            finished = False
            if tau is None:
                age = now - answered_at
                tau = limiter.silent(age, executed)
                finished = age >= RAMP_TIME - _HALF_PERIOD and not any(tau)
            else:
                answered_at = now
                words[DriverWord.ANSWERED] += 1
            if finished:
                finish(loop, handle, self._torques(tau))
                return reason if stopping else ("loop_silent", _silent(now - answered_at))
            handle.writeOnce(self._torques(tau))
            if words[DriverWord.ENABLED] != TORQUES or loop.ended():
                stopping = True
            if loop.has_lines():
                refuse_settings(loop, "torque")


def _silent(seconds: float) -> str:
    return (
        f"no command from the control loop for {1e3 * seconds:.0f} ms; the torque went to zero "
        "and the motion ended. Recover the arm to continue"
    )


def _invalid(tau: tuple[float, ...]) -> str:
    return (
        f"the control loop sent the torque {list(tau)}, allowed finite numbers; the torque "
        "went to zero and the motion ended. Recover the arm to continue"
    )
