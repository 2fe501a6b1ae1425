# SPDX-License-Identifier: Apache-2.0
"""The loop's end of one driver process."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from multipanda_py.franka.driver_memory import DriverMemory, DriverWord
from multipanda_py.franka.driver_process import DriverProcess
from multipanda_py.franka.driver_settings import DriverSettings
from multipanda_py.state import ArmState

START_TIMEOUT = 15.0
"""For a driver to connect: libfranka waits a second for this and that, recovery takes some [s]."""
STOP_TIMEOUT = 1.5
"""For a driver to end a motion and itself [s]."""
SILENCE = 50_000_000
"""Age of a driver's heartbeat that is a fault [ns]."""
HOPELESS = 2_000_000_000
"""Further silence after which a driver is killed: libfranka may wait for ever [ns]."""
_LOOK = 5_000_000  # younger heartbeats need no further look [ns]
_monotonic_ns = time.monotonic_ns
Fault = tuple[str, str]
"""Kind and sentence."""
NOT_USABLE, MODEL_DIFFERS = "not_usable", "model_differs"
"""Kinds of faults that no second attempt mends."""


class Link:
    """Start, feed, watch and end the driver of one arm.

    Args:
        state: Of the arm.
        settings: Of the driver.
        accept: Is given the driver's start-up answer; returns a reason to do without it.

    Attributes:
        event: eventfd that becomes readable with every state.
        is_new: Whether the last look found a new state.
        executing: Whether the newest state says that torques are executed.
        number: Of the newest state, counted by its driver.
        time: Robot time of the newest state [s].
        warnings: What the machine refused the driver, as sentences.
        answers: To :meth:`tell`: ``applied`` or ``refused``, and why. Whoever reads clears it.

    Thread: control, once it runs.
    """

    def __init__(
        self, state: ArmState, settings: DriverSettings, accept: Callable[[dict[str, Any]], str]
    ) -> None:
        self._arm, self._settings, self._accept = state, settings, accept
        self._memory = DriverMemory()
        self.words = self._memory.words
        self.event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._torque_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._shared = np.asarray(self._memory.state.numbers)
        self._state = np.zeros_like(self._shared)
        self._silence = SILENCE + int(settings.answer_budget * 1e9)
        self._seen = 0
        self.number = 0.0
        self._process: DriverProcess | None = None
        self._killed: list[DriverProcess] = []
        self._told: deque[DriverSettings] = deque()
        self._unread: list[dict[str, Any]] = []
        self._heard = 0
        self._silent = self._explained = False
        self._deadline = 0
        self.executing = self.is_new = False
        self.time = 0.0
        self.warnings: list[str] = []
        self.answers: list[tuple[str, str]] = []

    @property
    def pid(self) -> int:
        """Process id of the driver, -1 if there is none."""
        return -1 if self._process is None else self._process.pid

    def spawn(self) -> None:
        """Start a driver; its answer comes on its standard output."""
        self._drop()
        words = self.words
        words[DriverWord.SHUTDOWN] = words[DriverWord.BUSY_UNTIL] = words[DriverWord.READING] = 0
        words[DriverWord.ENABLED] = 1
        self._memory.torque.write(*[0.0] * 8)
        self.number = 0.0
        words[DriverWord.DRIVER_HEARTBEAT] = _monotonic_ns()
        self._heard = words[DriverWord.MESSAGES]
        self._told.clear()
        self._unread.clear()
        self._silent = self._explained = self.executing = False
        fds = (self._memory.fd, self.event, self._torque_event)
        self._process = DriverProcess(fds, self._settings.to_json())
        self._deadline = _monotonic_ns() + int(START_TIMEOUT * 1e9)

    def tell(self, settings: DriverSettings) -> None:
        """Send settings to the driver; :meth:`poll` adds the answer to ``answers``."""
        self._told.append(settings)
        if self._process is not None:
            self._process.tell(settings.to_json())

    @property
    def is_alive(self) -> bool:
        """Whether there is a driver that has its robot."""
        return not (self.starting or self._process is None or self._process.has_ended())

    @property
    def output(self) -> int:
        """File descriptor of the driver's standard output."""
        return -1 if self._process is None else self._process.output

    @property
    def starting(self) -> bool:
        """Whether the driver has not answered yet."""
        return self._deadline > 0

    def read(self) -> None:
        """Copy the newest state; an arm that executes nothing is commanded zero torque."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event)
        record, arm, state = self._memory.state, self._arm, self._state
        stamp = record.stamp()
        self.is_new = False
        if stamp != self._seen and not stamp & 1:
            state[:] = self._shared
            if record.stamp() == stamp:
                self._seen, self.is_new = stamp, True
                self.number, self.time, executing, _ = state[:4].tolist()
                self.executing = executing != 0.0 and not self._deadline
                arm.q[:] = state[4:11]
                arm.dq[:] = state[11:18]
                arm.tau_J[:] = state[18:25]
                # libfranka's sign is what the robot does to its environment.
                np.negative(state[25:32], arm.tau_ext)
        if not self.executing:
            arm.tau[:] = 0.0

    def write(self) -> None:
        """Hand the driver the torque for the state that was read last, and wake it."""
        self.words[DriverWord.LOOP_HEARTBEAT] = _monotonic_ns()
        self._memory.torque.write(self.number, *self._arm.tau.tolist())
        os.eventfd_write(self._torque_event, 1)

    def poll(self) -> list[Fault]:
        """Return kinds and sentences of faults since the last call. Costs next to nothing."""
        now = _monotonic_ns()
        if self._deadline:
            return self._poll_start(now)
        found: list[Fault] = []
        if self.words[DriverWord.MESSAGES] != self._heard:
            self._heard = self.words[DriverWord.MESSAGES]
            found.extend(self._listen())
        if now - self.words[DriverWord.DRIVER_HEARTBEAT] > _LOOK:
            found.extend(self._look(now))
        elif self._silent:
            self._silent = False
        return found

    def recover(self) -> None:
        """Ask the driver to make the arm ready; start a new one if it is dead or stuck."""
        if self._deadline:
            return
        beat = max(self.words[DriverWord.DRIVER_HEARTBEAT], self.words[DriverWord.BUSY_UNTIL])
        silent = _monotonic_ns() - beat > self._silence
        if self._process is None or self._process.has_ended() or silent:
            self.spawn()
        else:
            self._explained = False
            self.words[DriverWord.ENABLED] = 1
            self.words[DriverWord.RECOVER] += 1

    def suspend(self) -> int:
        """Have the torque go to zero and the motion end; return the newest state's number."""
        self.words[DriverWord.ENABLED] = 0
        os.eventfd_write(self._torque_event, 1)
        return int(self._shared[0])

    def resume(self) -> None:
        """Have torques executed again after :meth:`suspend`, unless there was a fault."""
        self.words[DriverWord.ENABLED] = 1

    def _messages(self) -> list[dict[str, Any]]:
        found, self._unread = self._unread, []
        return found if self._process is None else found + self._process.messages()

    def _listen(self) -> list[Fault]:
        found = []
        for message in self._messages():
            if "fault" in message:
                found.append((message["fault"], message["text"]))
                self._explained = True
                self._rest()
            elif "settings" in message:
                told = self._told.popleft()
                if message["settings"] == "applied":
                    self._settings = told
                self.answers.append((message["settings"], message["text"]))
        return found

    def _poll_start(self, now: int) -> list[Fault]:
        """Look for the answer of a driver that is starting."""
        messages = self._messages()
        if messages:
            self._deadline = 0
            message, *self._unread = messages  # a fault may have come right behind the answer
            if "error" in message:
                self._rest()
                self._drop()  # it is about to end; a recovery must not take it for alive
                self._explained = True
                kind = NOT_USABLE if message["final"] else "not_connected"
                return [(kind, message["error"])]
            self.warnings = message["warnings"]
            reason = self._accept(message["model"])
            if reason:
                self._explained = True
                self._rest()
                self.shut_down()
                return [(MODEL_DIFFERS, reason)]
            return []
        if self._process is not None and self._process.has_ended():
            self._deadline = 0
            self._explained = True
            return [("driver_died", f"the driver {self._process.ending()} while connecting")]
        if now > self._deadline:
            self._drop()
            self._deadline = 0
            self._explained = True
            ip = self._settings.robot_ip
            return [(
                "not_connected",
                f"robot {ip} accepts connections but does not answer within {START_TIMEOUT:g} s: "
                "check that the address is a robot's; restart the robot if it is",
            )]  # fmt: skip
        return []

    def _look(self, now: int) -> list[Fault]:
        """Find out why a driver does not beat."""
        process = self._process
        if process is None:
            return []
        if process.has_ended():
            self._rest()
            if self._explained:
                return []
            self._explained = True
            text = (
                f"the driver (process {process.pid}) {process.ending()}; recover to start another"
            )
            return [("driver_died", text)]
        since = now - max(
            self.words[DriverWord.DRIVER_HEARTBEAT], self.words[DriverWord.BUSY_UNTIL]
        )
        if since <= self._silence:
            return []
        if since > self._silence + HOPELESS:
            process.kill()
            return []
        if self._silent:
            return []
        self._silent = True
        self._rest()
        self.words[DriverWord.ENABLED] = 0  # the driver may not know, and must not go on by itself
        if self._explained:
            return []
        ip, waited = self._settings.robot_ip, f"{since / 1e6:.0f} ms"
        if self.words[DriverWord.READING] and not process.is_stopped():
            return [("robot_silent", f"no state from robot {ip} for {waited}: check the network")]
        return [("driver_silent", f"the driver (process {process.pid}) of robot {ip} has been "
                                  f"silent for {waited}; recover to start another")]  # fmt: skip

    def _rest(self) -> None:
        """Note that no torque is executed any more."""
        self.executing = False
        self._arm.tau[:] = 0.0

    def shut_down(self) -> None:
        """Ask the driver to end its motion and itself; returns at once."""
        self.words[DriverWord.SHUTDOWN] = 1
        os.eventfd_write(self._torque_event, 1)

    def stop(self, deadline: float | None = None) -> None:
        """Wait for the driver to end, and make sure that it does.

        Args:
            deadline: When to kill it, ``time.monotonic`` [s].
        """
        if self._process is not None and not self._process.has_ended():
            self.shut_down()
            limit = time.monotonic() + STOP_TIMEOUT if deadline is None else deadline
            self._process.wait(limit - time.monotonic())
        self.executing = False

    def close(self) -> None:
        """Let go of everything, after :meth:`stop`."""
        self._drop()
        for process in self._killed:
            process.wait(0.0)
        for fd in (self.event, self._torque_event, self._memory.fd):
            os.close(fd)

    def _drop(self) -> None:
        """Kill what is left of a driver and close its pipes; the kernel takes its time for it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.close()
            self._killed.append(process)
        self._killed = [process for process in self._killed if not process.has_ended()]
