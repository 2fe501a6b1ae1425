# SPDX-License-Identifier: Apache-2.0
"""Client of the gripper process of a real arm, in the process of the cell's owner.

The process is :mod:`multipanda_py.hardware.franka.gripper_process`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from multipanda_py.exceptions import LoopTimeout, MultipandaError
from multipanda_py.hardware.franka.gripper_process import RESPONSE_TIMEOUT
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.robots.gripper import (
    MAX_WIDTH,
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
    Outcome,
)

START_TIMEOUT = 20.0
"""Timeout of the first message of a process, which loads pylibfranka [s]."""
END_TIMEOUT = 2.0
"""Timeout of the end of the process [s]."""


@dataclass
class _PendingCommand:
    """Command that was sent to the gripper; ``result`` is None until the command has ended."""

    command: GripperCommand
    result: GripperResult | None = None


class FrankaGripper(Gripper):
    """Gripper of a real arm, controlled through a separate process.

    If this process has ended, the next command starts a new one. A process without a heartbeat is
    killed, so that it cannot execute an earlier command later.

    Args:
        arm: Name of the arm.
        address: Address of the robot.
        publish: Function that receives the width [m] and True if an object is grasped. A
            background thread calls it at 20 Hz.
        check: Function that raises an error if the cell is not running; called during waits.
        heartbeat_timeout: Timeout of the heartbeat after the first message [s].
    """

    def __init__(
        self,
        arm: str,
        address: str,
        publish: Callable[[float, bool], None] = lambda width, is_grasped: None,
        check: Callable[[], None] = lambda: None,
        heartbeat_timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        super().__init__(arm)
        self._address, self._publish, self._check = address, publish, check
        self._changed = threading.Condition(threading.RLock())
        self._number = 0
        self._width, self._max_width, self._is_grasped = 0.0, MAX_WIDTH, False
        self._measured_at = time.monotonic()
        self._problem = f"gripper of {arm}: not connected yet"
        self._heartbeat_timeout = heartbeat_timeout
        self._link = self._new_link()

    @property
    def pid(self) -> int:
        return self._link.process.pid

    def state(self) -> GripperState:
        """Return the newest measurement and its age; the width is 0 before the first measurement.

        libfranka does not measure during a motion.
        """
        with self._changed:
            age = time.monotonic() - self._measured_at
            moving = bool(self._link.pending)
            return GripperState(
                self._width, self._max_width, self._is_grasped, moving, age, self._problem
            )

    def start(self, command: GripperCommand) -> GripperMotion:
        """Send a command to the gripper process, which is started if necessary."""
        pending = _PendingCommand(command)
        with self._changed:
            self._number += 1
            if not self._link.send(self._number, pending):
                self._link = self._new_link()
                if not self._link.send(self._number, pending):
                    self._settle(pending, Outcome.FAILED, "its process does not start")
        return GripperMotion(command, lambda: pending.result, self._wait)

    def close(self) -> None:
        """End the process; the fingers stay where they are."""
        self._link.close()

    def _new_link(self) -> _ProcessLink:
        return _ProcessLink(self._address, self._on_message, self._on_end, self._heartbeat_timeout)

    def _on_message(self, link: _ProcessLink, message: dict[str, Any]) -> None:
        """Store a measurement, problem or result that the process has sent. Thread: reader."""
        measured = "width" in message
        with self._changed:
            if measured:
                self._width = float(message["width"])
                self._is_grasped = bool(message["is_grasped"])
                self._max_width = float(message["max_width"]) or MAX_WIDTH
                self._measured_at, self._problem = time.monotonic(), ""
            if "problem" in message:
                self._problem = f"gripper of {self.arm}: {message['problem']}"
            if "done" in message and message["done"] in link.pending:
                outcome = Outcome(message["outcome"])
                self._settle(link.pending.pop(message["done"]), outcome, message["text"])
            self._changed.notify_all()
        if measured:
            # A cell that starts or closes rejects measurements; this one is then skipped.
            with contextlib.suppress(MultipandaError):
                self._publish(self._width, self._is_grasped)

    def _on_end(self, link: _ProcessLink, code: int) -> None:
        """Let pending commands fail after the process has ended. Thread: reader."""
        with self._changed:
            if not link.closing:
                ending = f"was killed by signal {-code}" if code < 0 else f"has ended ({code})"
                if link.stalled_for:
                    ending = f"sent no heartbeat for {link.stalled_for:g} s and was killed"
                if link.stalled_for or not self._problem:
                    self._problem = f"gripper of {self.arm}: its process {ending}"
                self._problem += "; the next command starts it again"
            for pending in link.pending.values():
                self._settle(pending, Outcome.FAILED, self._problem or "the cell was closed")
            link.pending.clear()
            self._changed.notify_all()

    def _settle(self, pending: _PendingCommand, outcome: Outcome, text: str) -> None:
        text_reported = text or f"{outcome.name.lower()} at {self._width:.4f} m"
        pending.result = GripperResult(outcome, self._width, f"{pending.command}: {text_reported}")

    def _wait(self, condition: Callable[[], bool], timeout: float, description: str) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0.0:
                    raise LoopTimeout(f"waiting for {description}: timeout after {timeout:g} s")
                self._changed.wait(min(left, 0.1))
                self._check()


class _ProcessLink:
    """Connection to a gripper process: its pipes, and the thread that reads its messages."""

    def __init__(
        self,
        address: str,
        on_message: Callable[[_ProcessLink, dict[str, Any]], None],
        on_end: Callable[[_ProcessLink, int], None],
        heartbeat_timeout: float,
    ) -> None:
        self.pending: dict[int, _PendingCommand] = {}
        self.closing, self.stalled_for = False, 0.0
        self._on_message, self._on_end, self._heartbeat_timeout = (
            on_message,
            on_end,
            heartbeat_timeout,
        )
        self.process = subprocess.Popen(
            module_command("multipanda_py.hardware.franka.gripper_process", address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must reach only the process that owns the cell.
            # The process forks its worker, which is unsafe if OpenBLAS has started threads.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._reader = threading.Thread(target=self._read, name="gripper", daemon=True)
        self._reader.start()

    def send(self, command_number: int, pending: _PendingCommand) -> bool:
        """Send a command to the process; return False if the process has ended."""
        stream = self.process.stdin
        if stream is None or self.process.poll() is not None:
            return False
        try:
            line = json.dumps({"number": command_number, **asdict(pending.command)}) + "\n"
            stream.write(line.encode())
            stream.flush()
        except (OSError, ValueError):
            return False
        self.pending[command_number] = pending
        return True

    def close(self) -> None:
        """End the process by closing its input, and wait for its end; safe to call twice."""
        self.closing = True
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reader.join(END_TIMEOUT)

    def _read(self) -> None:
        """Forward messages until the process ends; kill it if heartbeats stop. Thread: reader."""
        output = self.process.stdout
        if output is not None:
            self._listen(output.fileno())
        code = self.process.wait()
        if output is not None:
            output.close()
        self._on_end(self, code)

    def _listen(self, fd: int) -> None:
        poll, received, timeout = select.poll(), b"", START_TIMEOUT
        poll.register(fd, select.POLLIN)
        while True:
            if not poll.poll(timeout * 1e3):
                self.stalled_for = timeout
                self.process.kill()  # SIGKILL also ends a stopped process, and its worker.
                return
            data = os.read(fd, 65536)
            if not data:
                return
            timeout = self._heartbeat_timeout
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                self._on_message(self, json.loads(line))
