# SPDX-License-Identifier: Apache-2.0
"""Link of the loop to one driver process."""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np

from multipanda_py.hardware.driver.driver_process import MODEL_DIFFERS, Accept, DriverWatch, Fault
from multipanda_py.hardware.driver.memory import (
    HEAD,
    TORQUES,
    AnyDriverSettings,
    DriverMemory,
    DriverState,
    DriverWord,
)
from multipanda_py.state import ArmState

STOP_TIMEOUT = 1.5
"""Time limit for a driver to end its motion and itself, before it is killed [s]."""
_monotonic_ns, _add = time.monotonic_ns, np.add


class LoopSide:
    """Link of the loop to the driver of one arm: reads states and writes commands.

    Args:
        module: Full name of the driver's module.
        state: State of the arm.
        settings: Settings of the driver.

    Attributes:
        event: eventfd that becomes readable with every state.
        watch: Monitor of the driver.
        is_new: True if the last :meth:`read` found a new state.
        executing: True if the arm executes the loop's commands, according to the newest state.
        number: Number of the newest state, counted by its driver.
        time: Robot time of the newest state [s].

    Thread: control, once the loop runs.
    """

    def __init__(self, module: str, state: ArmState, settings: AnyDriverSettings) -> None:
        self._arm, n = state, state.n_joints
        self._memory = DriverMemory(n)
        self._q, self._dq, self._tau_J, self._tau_ext = (
            slice(HEAD + k * n, HEAD + (k + 1) * n) for k in range(4)
        )
        self._total = np.zeros(n)
        self._kind = TORQUES
        self._may_execute = False
        self.words = self._memory.words
        self.event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._torque_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._shared = np.asarray(self._memory.state.numbers)
        self._state = np.zeros_like(self._shared)
        self._last_stamp = 0
        self._mode = -1.0
        self.number = self.time = 0.0
        self.executing = self.is_new = False
        self.watch = DriverWatch(module, n, self.words, settings)

    @property
    def pid(self) -> int:
        """Process id of the driver, -1 without one."""
        return self.watch.pid

    @property
    def starting(self) -> bool:
        """True while a started driver has not yet reported whether it could connect."""
        return self.watch.state is DriverState.CONNECTING

    @property
    def is_alive(self) -> bool:
        """True if a driver runs and is connected to its robot."""
        return not (self.starting or self.watch.has_ended)

    def spawn(self) -> None:
        """Start a driver; kill the previous one."""
        self.watch.drop()
        words = self.words
        words[DriverWord.SHUTDOWN] = words[DriverWord.BUSY_UNTIL] = words[DriverWord.READING] = 0
        words[DriverWord.ENABLED] = self._kind if self._may_execute else 0
        for record in (self._memory.torque, self._memory.position):
            record.write(*[0.0] * (1 + self._arm.n_joints))
        self.number = 0.0
        self.executing = False
        self.watch.start((self._memory.fd, self.event, self._torque_event))

    def read(self) -> None:
        """Copy the newest state from the driver to the state of the arm.

        While the arm executes no commands, its commanded torque ``tau`` is set to zero. Under
        position or velocity control, ``joint_command`` is then set to the measured positions.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event)
        record, arm, state = self._memory.state, self._arm, self._state
        stamp = record.stamp()
        self.is_new = False
        if stamp != self._last_stamp and not stamp & 1:
            state[:] = self._shared
            if record.stamp() == stamp:
                self._last_stamp, self.is_new = stamp, True
                self.number, self.time, executing, mode = state[:HEAD].tolist()
                arm.robot_time[...] = self.time
                if mode != self._mode:
                    self._mode = mode
                    arm.robot_mode[...] = mode
                    arm.robot_errors[0] = self.words[DriverWord.CURRENT_ERRORS]
                    arm.robot_errors[1] = self.words[DriverWord.LAST_ERRORS]
                self.executing = executing == self._kind and not self.starting
                arm.q[:] = state[self._q]
                arm.dq[:] = state[self._dq]
                arm.tau_J[:] = state[self._tau_J]
                np.negative(state[self._tau_ext], arm.tau_ext)
        if not self.executing:
            arm.tau[:] = 0.0
            if self._kind != TORQUES:
                arm.joint_command[0] = arm.q
                arm.joint_command[1:] = 0.0

    def write(self) -> None:
        """Write the command for the state that was read last, and wake the driver."""
        self.words[DriverWord.LOOP_HEARTBEAT] = _monotonic_ns()
        if self._kind != TORQUES:
            self._memory.position.write(self.number, *self._arm.joint_command[0].tolist())
            os.eventfd_write(self._torque_event, 1)
            return
        total = _add(self._arm.tau, self._arm.tau_gravity, self._total)
        self._memory.torque.write(self.number, *total.tolist())
        os.eventfd_write(self._torque_event, 1)

    def poll(self, accept: Accept) -> list[Fault]:
        """Return the faults of driver and robot since the last call.

        Unless the driver is connected and sends heartbeats, the commanded torque ``tau`` is set to
        zero.

        Args:
            accept: Check of the robot's model in the first response of a driver.
        """
        result = self.watch.poll(accept)
        if self.watch.state is not DriverState.WORKING:
            self.executing = False
            self._arm.tau[:] = 0.0
        if any(fault.kind == MODEL_DIFFERS for fault in result):
            self.shut_down()
        return result

    def recover(self) -> None:
        """Request the recovery of the arm, or start a new driver if this one does not respond."""
        if self.starting:
            return
        if self.watch.has_ended or self.watch.is_silent:
            self.spawn()
        else:
            self.watch.recover()
            if self._may_execute:
                self.words[DriverWord.ENABLED] = self._kind
            self.words[DriverWord.RECOVER] += 1

    def enable_commands(self) -> None:
        """Let the driver execute commands, and monitor its heartbeat from now on."""
        self._may_execute = self.watch.is_armed = True
        self.words[DriverWord.ENABLED] = self._kind

    def engage(self, kind: int) -> None:
        """Change the kind of command: the driver ends its motion and starts one of the new kind.

        Args:
            kind: New kind of command, ``TORQUES``, ``POSITIONS`` or ``VELOCITIES``.
        """
        if self.words[DriverWord.ENABLED]:
            self.words[DriverWord.ENABLED] = kind
        self._kind, self.executing = kind, False
        os.eventfd_write(self._torque_event, 1)

    def suspend(self) -> int:
        """Disable commands, so that the driver lets the torque decay and ends its motion.

        Returns:
            Number of the newest state; only later states can show the end of the motion.
        """
        self.words[DriverWord.ENABLED] = 0
        os.eventfd_write(self._torque_event, 1)
        return int(self._shared[0])

    def resume(self) -> None:
        """Enable commands again after :meth:`suspend`.

        A driver with a fault starts no motion before a recovery.
        """
        self.words[DriverWord.ENABLED] = self._kind

    def shut_down(self) -> None:
        """Request the end of the motion and of the driver, without waiting for it."""
        self.words[DriverWord.SHUTDOWN] = 1
        os.eventfd_write(self._torque_event, 1)

    def stop(self, deadline: float | None = None) -> None:
        """Request the end of the driver and wait for it; kill the driver at the deadline.

        Args:
            deadline: Deadline, CLOCK_MONOTONIC [s]; None for ``STOP_TIMEOUT`` from now.
        """
        if not self.watch.has_ended:
            self.shut_down()
            limit = time.monotonic() + STOP_TIMEOUT if deadline is None else deadline
            self.watch.wait(limit - time.monotonic())
        self.executing = False

    def close(self) -> None:
        """Close file descriptors and shared memory, after :meth:`stop`."""
        self.watch.close()
        for fd in (self.event, self._torque_event, self._memory.fd):
            os.close(fd)
