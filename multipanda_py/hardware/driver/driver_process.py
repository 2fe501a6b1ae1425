# SPDX-License-Identifier: Apache-2.0
"""Start and monitor the driver process of an arm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from multipanda_py.hardware.driver.memory import (
    AnyDriverSettings,
    DriverEvent,
    DriverState,
    DriverWord,
    next_state,
)
from multipanda_py.realtime.system.child_process import ended, module_command


class DriverProcess:
    """Driver process of an arm. Only :meth:`wait` blocks.

    Args:
        module: Full name of the driver's module.
        n_joints: Number of joints of the arm.
        fds: File descriptors for the driver: shared memory, eventfd of states, eventfd of
            commands.
        first_line: Settings as JSON, which are sent as the first line of standard input.

    Attributes:
        pid: Process id.
        output: File descriptor of the standard output of the process.
    """

    def __init__(self, module: str, n_joints: int, fds: Sequence[int], first_line: str) -> None:
        policy = os.sched_getscheduler(0)
        # Without this flag, the new process would keep the loop's priority, and its start would
        # delay the loop.
        if policy in (os.SCHED_FIFO, os.SCHED_RR):
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_getparam(0))
        self._process = subprocess.Popen(
            module_command(module, *map(str, (*fds, n_joints))),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds, start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self.output = -1 if self._process.stdout is None else self._process.stdout.fileno()
        os.set_blocking(self.output, False)
        self._received = b""
        self.send(first_line)

    def send(self, line: str) -> None:
        """Write a line to the standard input of the process; ignored if the process has ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # The process may have just ended.
                os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def messages(self) -> list[dict[str, Any]]:
        """Return the new messages of the process, decoded from JSON."""
        with contextlib.suppress(BlockingIOError):
            self._received += os.read(self.output, 65536)
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ending(self) -> str:
        """Return the kind of end of the process as text, such as ``exited (1)``."""
        code = self._process.poll()
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited ({code})"

    def is_stopped(self) -> bool:
        """Return True if a signal such as SIGSTOP has suspended the process."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] in ("T", "t")
        except (OSError, IndexError):
            return False

    def kill(self) -> None:
        """Kill the process; :meth:`has_ended` is True when this is done."""
        self._process.kill()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it after a timeout [s]."""
        ended(self._process, max(0.0, seconds))

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


START_TIMEOUT = 15.0
"""Timeout of the connection of a driver [s]. libfranka blocks for about a second several times,
and a recovery of the robot takes further time."""
HEARTBEAT_TIMEOUT = 50_000_000
"""Age of the driver's heartbeat above which it is a fault [ns]."""
KILL_TIMEOUT = 2_000_000_000
"""Time after ``HEARTBEAT_TIMEOUT`` at which a driver without heartbeat is killed, because
libfranka may block forever [ns]."""
_RECENT_HEARTBEAT = 5_000_000  # Age of a heartbeat up to which the driver needs no check [ns].
_monotonic_ns = time.monotonic_ns


class Fault(NamedTuple):
    """One fault of a driver or its robot.

    Attributes:
        kind: Kind of the fault, as one word such as ``driver_died``.
        text: Description, as a sentence.
        is_transient: True if a busy machine or network can be the cause, so that a restart may
            help.
    """

    kind: str
    text: str
    is_transient: bool = False


NOT_USABLE, MODEL_DIFFERS = "not_usable", "model_differs"
"""Kinds of faults for which a second attempt is useless."""
Accept = Callable[[dict[str, Any]], str]
"""Function that checks the start-up response of a driver; it returns a reason to reject it, or
an empty string."""


class DriverWatch:
    """Monitor that starts the driver process of one arm, checks it, and replaces it by a new one.

    Args:
        module: Full name of the driver's module.
        n_joints: Number of joints of the arm.
        words: Shared memory of driver and loop, indexed by :class:`.DriverWord`.
        settings: Settings of the driver.

    Attributes:
        state: State of the driver.
        is_armed: True if a missing heartbeat is a fault; False during the warm-up of the loop.
        warnings: Warnings of the driver about denied rights.
        answers: Responses of the driver to :meth:`send`, which the caller removes: ``applied`` or
            ``refused``, and the reason of a refusal.
        messages: Number of messages that the driver had sent when they were last read.

    Thread: control, once the loop runs.
    """

    def __init__(
        self, module: str, n_joints: int, words: memoryview, settings: AnyDriverSettings
    ) -> None:
        self._module, self._n_joints = module, n_joints
        self._words, self._settings = words, settings
        self._timeout = HEARTBEAT_TIMEOUT + int(settings.answer_budget * 1e9)
        self.state = DriverState.ABSENT
        self.is_armed = False
        self._process: DriverProcess | None = None
        self._killed: list[DriverProcess] = []
        self._sent_settings: deque[AnyDriverSettings] = deque()
        self._unread: list[dict[str, Any]] = []
        self.messages = self._deadline = 0
        self.warnings: list[str] = []
        self.answers: list[tuple[str, str]] = []

    def _happens(self, event: DriverEvent) -> None:
        self.state = next_state(self.state, event)

    @property
    def pid(self) -> int:
        """Process id of the driver, -1 without one."""
        return -1 if self._process is None else self._process.pid

    @property
    def output(self) -> int:
        """File descriptor of the driver's standard output, -1 without a driver."""
        return -1 if self._process is None else self._process.output

    @property
    def has_ended(self) -> bool:
        """True if no driver process runs."""
        return self._process is None or self._process.has_ended()

    @property
    def is_silent(self) -> bool:
        """True if the heartbeat of the driver is older than its timeout."""
        return self._age(_monotonic_ns()) > self._timeout

    def _age(self, now: int) -> int:
        words = self._words
        return now - max(words[DriverWord.DRIVER_HEARTBEAT], words[DriverWord.BUSY_UNTIL])

    def start(self, fds: tuple[int, int, int]) -> None:
        """Kill the previous driver and start a new one, without waiting for its connection.

        Args:
            fds: File descriptors for the driver: shared memory, eventfd of states, eventfd of
                commands.
        """
        self.drop()
        self._words[DriverWord.DRIVER_HEARTBEAT] = _monotonic_ns()
        self.messages = self._words[DriverWord.MESSAGES]
        self._sent_settings.clear()
        self._unread.clear()
        self._process = DriverProcess(self._module, self._n_joints, fds, self._settings.to_json())
        self._deadline = _monotonic_ns() + int(START_TIMEOUT * 1e9)
        self._happens(DriverEvent.START)

    def recover(self) -> None:
        """Leave the state ``FAULTED``, so that the next fault is reported."""
        self._happens(DriverEvent.RECOVER)

    def send(self, settings: AnyDriverSettings) -> None:
        """Send settings to the driver.

        A later :meth:`poll` adds the driver's response to ``answers``.
        """
        self._sent_settings.append(settings)
        if self._process is not None:
            self._process.send(settings.to_json())

    def poll(self, accept: Accept) -> list[Fault]:
        """Check messages and heartbeat of the driver; return the faults since the last call.

        Args:
            accept: Check of the robot's model in the first response of a driver.
        """
        now = _monotonic_ns()
        if self.state is DriverState.CONNECTING:
            return self._check_first_response(now, accept)
        result: list[Fault] = []
        if self._words[DriverWord.MESSAGES] != self.messages:
            self.messages = self._words[DriverWord.MESSAGES]
            result.extend(self._listen())
        if now - self._words[DriverWord.DRIVER_HEARTBEAT] > _RECENT_HEARTBEAT:
            result.extend(self._check_heartbeat(now))
        elif self.state is DriverState.SILENT:
            self._happens(DriverEvent.BEAT)
        return result

    def _messages(self) -> list[dict[str, Any]]:
        messages, self._unread = self._unread, []
        return messages if self._process is None else messages + self._process.messages()

    def _listen(self) -> list[Fault]:
        result = []
        for message in self._messages():
            if "fault" in message:
                transient = message.get("transient", False)
                result.append(self._fail(message["fault"], message["text"], transient))
            elif "settings" in message:
                commanded = self._sent_settings.popleft()
                if message["settings"] == "applied":
                    self._settings = commanded
                self.answers.append((message["settings"], message["text"]))
        return result

    def _check_first_response(self, now: int, accept: Accept) -> list[Fault]:
        """Return the fault of a starting driver in a list, which is empty without a fault."""
        messages = self._messages()
        if messages:
            # Further messages, such as a fault, are processed by the next call of ``poll``.
            message, *self._unread = messages
            if "error" in message:
                self.drop()  # A recovery must not reuse a driver that is about to end.
                kind = NOT_USABLE if message["final"] else "not_connected"
                return [self._fail(kind, message["error"])]
            self._happens(DriverEvent.CONNECT)
            self.warnings = message["warnings"]
            reason = accept(message["model"])
            return [self._fail(MODEL_DIFFERS, reason)] if reason else []
        process = self._process
        if process is not None and process.has_ended():
            text = f"the driver {process.ending()} while connecting"
            return [self._fail("driver_died", text, True)]
        if now > self._deadline:
            self.drop()
            text = f"{self._settings.no_answer} {START_TIMEOUT:g} s"
            return [self._fail("not_connected", text)]
        return []

    def _check_heartbeat(self, now: int) -> list[Fault]:
        """Return the new fault of a driver that has ended or sends no heartbeats, in a list."""
        process, known = self._process, self.state is DriverState.FAULTED
        if process is None:
            return []
        if process.has_ended():
            if known:
                return []
            text = (
                f"the driver (process {process.pid}) {process.ending()}. Recover to start another"
            )
            return [self._fail("driver_died", text, True)]
        since = self._age(now)
        if since <= self._timeout:
            return []
        if since > self._timeout + KILL_TIMEOUT:
            process.kill()
            return []
        if self.state is DriverState.SILENT or not self.is_armed:
            return []
        self._happens(DriverEvent.FALL_SILENT)
        # When the driver responds again, it must not resume the motion.
        self._words[DriverWord.ENABLED] = 0
        return [] if known else [self._silent_fault(process, since)]

    def _silent_fault(self, process: DriverProcess, since: int) -> Fault:
        peer, waited = self._settings.peer, f"{since / 1e6:.0f} ms"
        if self._words[DriverWord.READING] and not process.is_stopped():
            text = f"no state from {peer} for {waited}: check the network"
            return Fault("robot_silent", text, True)
        text = (
            f"no heartbeat of the driver (process {process.pid}) of {peer} for {waited}. "
            "Recover to start another"
        )
        return Fault("driver_silent", text, True)

    def _fail(self, kind: str, text: str, is_transient: bool = False) -> Fault:
        self._happens(DriverEvent.FAIL)
        return Fault(kind, text, is_transient)

    def wait(self, seconds: float) -> None:
        """Wait for the end of the driver, and kill it after a timeout [s]."""
        if self._process is not None:
            self._process.wait(seconds)

    def drop(self) -> None:
        """Kill the driver and close its pipes; do not wait until the process has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.close()
            self._killed.append(process)
        self._killed = [process for process in self._killed if not process.has_ended()]

    def close(self) -> None:
        """Kill the driver, and wait until it and all previous drivers have ended."""
        self.drop()
        for process in self._killed:
            process.wait(0.0)
