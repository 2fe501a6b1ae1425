# SPDX-License-Identifier: Apache-2.0
"""Driver process of one real arm, between libfranka and the loop.

The loop runs ``python -m multipanda_py.hardware.franka.driver MEMORY STATE_EVENT TORQUE_EVENT
JOINTS`` with three inherited file descriptors and the number of joints. Lines on standard input
are settings as JSON. The first line of JSON on standard output reports the connection or an error.
Later lines report faults, and responses to new settings. The end of standard input ends the
driver.

libfranka can block forever if the network fails. The loop therefore monitors the heartbeat of the
driver. For the same reason, the process exits without calling destructors of libfranka.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from multipanda_py.hardware.driver.driver_side import (
    DriverSide,
    collect_for_good,
    connect_to_loop,
    take_priority,
)
from multipanda_py.hardware.driver.memory import TORQUES, DriverStartError, DriverWord
from multipanda_py.hardware.franka.errors import (
    COMMUNICATION_ERROR,
    bits_of,
    fault_of_mode,
    names_of,
)
from multipanda_py.hardware.franka.robot_connection import (
    DriverSettings,
    SettingRefused,
    apply,
    ended_motion,
    measure,
    open_robot,
)
from multipanda_py.hardware.franka.torque_control import TorqueControl, publish

_SIOCGSTAMPNS = 0x8907  # Code of ``ioctl`` for the arrival time of the last packet of a socket.
_STAMP = struct.Struct("@qq")
_MAX_PLAUSIBLE_AGE = 1_000_000_000
"""Age above which a step of the clock is assumed; the age is then unknown [ns]."""


class StateAge:
    """Time since the arrival of the robot state that libfranka read last.

    The kernel records the arrival. A packet may wait in the socket before libfranka reads it.

    Args:
        fd: File descriptor of the socket that receives states; None without one.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd, self._stamp = fd, bytearray(_STAMP.size)
        self()  # The kernel records time stamps only after the first request.

    def __call__(self) -> int:
        """Return the age [ns]; 0 without a socket or without a plausible time stamp."""
        if self._fd is None:
            return 0
        try:
            fcntl.ioctl(self._fd, _SIOCGSTAMPNS, self._stamp)
        except OSError:  # No packet has been read yet, or the socket is closed.
            return 0
        seconds, nanoseconds = _STAMP.unpack(self._stamp)
        age = time.time_ns() - 1_000_000_000 * seconds - nanoseconds
        return age if 0 <= age < _MAX_PLAUSIBLE_AGE else 0


def state_socket() -> int | None:
    """Return the file descriptor of libfranka's socket, the only UDP socket of this process.

    The result is None without exactly one UDP socket.
    """
    result = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            probe = socket.socket(fileno=int(name))
            kind, family = probe.type, probe.family
            probe.detach()
            if kind == socket.SOCK_DGRAM and family in (socket.AF_INET, socket.AF_INET6):
                result.append(int(name))
    return result[0] if len(result) == 1 else None


_MODES = {"Other": 0, "Idle": 1, "Move": 2, "Guiding": 3, "Reflex": 4, "UserStopped": 5,
          "AutomaticErrorRecovery": 6}  # fmt: skip
# Maximum durations of blocking calls of libfranka, without heartbeats: start of a motion,
# recovery, settings [s].
_START_TIME, _RECOVERY_TIME, _SETTINGS_TIME = 1.5, 15.0, 3.0
_LOST_COMMANDS = fault_of_mode("Reflex", [COMMUNICATION_ERROR])
# Maximum duration of an import on a busy machine with a slow disk, without heartbeats [s].
_IMPORT_TIME = 10.0


class SettingsLost(Exception):
    """Error if previous settings cannot be restored: the robot has old and new settings mixed."""


class Driver:
    """Main loop of the driver: publishes states, and runs motions, recoveries and new settings."""

    def __init__(self, robot: Any, loop: DriverSide, settings: DriverSettings) -> None:
        self._robot, self._loop = robot, loop
        self._controls: dict[int, tuple[Any, Callable[[], Any]]] = {
            TORQUES: (TorqueControl(loop, settings), robot.start_torque_control)
        }
        self._kind = TORQUES
        self._settings = settings
        self._armed = True
        self._mode = ""
        self._recoveries = loop.words[DriverWord.RECOVER]

    def run(self) -> None:
        """Run until the loop ends or stops this driver.

        Raises:
            RuntimeError: If the link to the robot is broken.
        """
        while self._publish_until_motion():
            self._run_motion()

    def _publish_until_motion(self) -> bool:
        """Publish states until the loop requests a motion (True) or the driver has to end."""
        loop, robot, words = self._loop, self._robot, self._loop.words
        # Discard the first state, which may have waited in the socket since the last motion.
        robot.read_once()
        published = ""
        while True:
            loop.report_reading()
            state = robot.read_once()
            mode = state.robot_mode.name
            if mode != published:
                published = mode
                _write_errors_to_memory(loop, state)
            publish(loop, state, False, _MODES.get(mode, 0))
            if loop.ended():
                return False
            loop.send_heartbeat()
            if mode != self._mode:
                self._report_stopped_robot(mode, state)
            lines = loop.lines()
            if lines:
                self._apply_settings(lines)
                robot.read_once()
            elif words[DriverWord.RECOVER] != self._recoveries:
                self._recoveries = words[DriverWord.RECOVER]
                self._recover_robot(state)
                robot.read_once()
            elif self._armed and mode == "Idle" and (kind := loop.may_execute()):
                self._kind = kind
                return True

    def _report_stopped_robot(self, mode: str, state: Any) -> None:
        before, self._mode = self._mode, mode
        if mode in ("Idle", "Move", "AutomaticErrorRecovery"):
            return
        names = names_of(state.current_errors) or names_of(state.last_motion_errors)
        if self._armed or before == "Idle":
            self._report_fault(*fault_of_mode(mode, names))

    def _report_fault(self, kind: str, text: str) -> None:
        self._armed = False
        # Recovery requests from before this fault must not clear it.
        self._recoveries = self._loop.words[DriverWord.RECOVER]
        self._loop.send_message(
            fault=kind,
            text=f"robot {self._settings.robot_ip}: {text}",
            transient=kind == "loop_silent" or (kind, text) == _LOST_COMMANDS,
        )

    def _recover_robot(self, state: Any) -> None:
        mode = state.robot_mode.name
        if mode not in ("Idle", "Reflex"):
            self._report_fault(*fault_of_mode(mode, ()))
            return
        if mode == "Reflex":
            self._loop.report_busy(_RECOVERY_TIME)
            try:
                self._robot.automatic_error_recovery()
            except RuntimeError as error:
                if _is_broken_link(error):
                    raise
                self._report_fault("recovery_failed", str(error).removeprefix("libfranka: "))
                return
            finally:
                self._loop.report_busy(0.0)
        self._armed = True

    def _apply_settings(self, lines: list[str]) -> None:
        self._loop.report_busy(_SETTINGS_TIME)
        for line in lines:
            settings = DriverSettings.from_json(line)
            try:
                apply(self._robot, settings)
            except SettingRefused as error:
                self._loop.send_message(settings="refused", text=str(error))
                self._restore_settings()
            else:
                self._settings = settings
                self._loop.send_message(settings="applied", text="")
        self._loop.report_busy(0.0)

    def _restore_settings(self) -> None:
        try:
            apply(self._robot, self._settings)
        except SettingRefused as error:
            # A new driver then has to send all settings.
            raise SettingsLost(f"the robot rejects even its previous settings: {error}") from None

    def _control_and_start(self) -> tuple[Any, Callable[[], Any]]:
        """Return the control for the enabled kind of command, and a function to start a motion."""
        if self._kind not in self._controls:
            # Imported only on demand, because this needs numpy, which takes memory and time.
            self._loop.report_busy(_IMPORT_TIME)
            from multipanda_py.hardware.franka.position_control import PositionControl, joint_modes

            age = StateAge(state_socket())
            follower = self._settings.motion_controller
            for kind, mode in joint_modes().items():
                control = PositionControl(self._loop, self._settings, kind, mode, age)
                self._controls[kind] = control, partial(mode.start, self._robot, follower)
        return self._controls[self._kind]

    def _run_motion(self) -> None:
        reason = None
        failure = ""
        try:
            control, start = self._control_and_start()
            self._loop.report_busy(_START_TIME)
            reason = control.run(start())
        except RuntimeError as error:
            if _is_broken_link(error):
                raise
            failure = str(error).removeprefix("libfranka: ")
        # The ``except`` block keeps the handle of the motion alive, and libfranka must not be
        # called before it is deleted. The fault is therefore examined after this block.
        self._mode = "Move"
        if failure:
            self._loop.report_busy(_START_TIME)
            self._mode, fault = ended_motion(self._robot, failure)
            self._report_fault(*fault)
            self._loop.report_busy(0.0)
        elif reason is not None:
            self._report_fault(*reason)


def _write_errors_to_memory(loop: DriverSide, state: Any) -> None:
    """Write the robot's errors, which the loop reads with the next published state."""
    loop.words[DriverWord.CURRENT_ERRORS] = bits_of(state.current_errors)
    loop.words[DriverWord.LAST_ERRORS] = bits_of(state.last_motion_errors)


def _is_broken_link(error: RuntimeError) -> bool:
    return type(error).__name__ not in ("CommandException", "ControlException")


def main() -> NoReturn:
    """Connect to loop and robot, and run the driver. Thread: main.

    The process exits without calling destructors of libfranka, which could block.
    """
    loop = connect_to_loop()
    try:
        settings = DriverSettings.from_json(loop.first_line())
        os.sched_setaffinity(0, settings.cpus)
        robot = open_robot(settings)
        # libfranka has set a priority of its own, which is replaced by that of the settings.
        warnings = take_priority(settings.priority, settings.robot_ip)
        result = measure(robot)
        state = robot.read_once()
        _write_errors_to_memory(loop, state)
        publish(loop, state, False, _MODES.get(state.robot_mode.name, 0))
    except DriverStartError as error:
        loop.send_message(error=f"{error}", final=error.final)
        os._exit(1)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        loop.send_message(error=f"{error}", final=not isinstance(error, RuntimeError))
        os._exit(1)
    collect_for_good()
    loop.send_message(ok=True, warnings=warnings, model=result)
    try:
        Driver(robot, loop, settings).run()
    except Exception as error:
        kind = "network_lost" if isinstance(error, RuntimeError) else "driver_error"
        text = f"robot {settings.robot_ip}: {_gone(error)}"
        loop.send_message(fault=kind, text=text, transient=kind == "network_lost")
        # Destructors of libfranka would contact the robot and could block, so none runs.
        os._exit(1)
    os._exit(0)


def _gone(error: Exception) -> str:
    text = str(error).removeprefix("libfranka: ")
    if isinstance(error, RuntimeError):
        return (
            f"the link is broken ({text}); check power, cable and FCI in Desk, then recover to "
            "connect again"
        )
    return f"{type(error).__name__}: {text}; recover to connect again"


if __name__ == "__main__":
    main()
