# SPDX-License-Identifier: Apache-2.0
"""Process of a real gripper: ``python -m multipanda_py.hardware.franka.gripper_process ADDRESS``.

A call of libfranka blocks the interpreter until it ends. A grasp takes seconds, and a call never
ends if the robot disappears. The robot rejects a second connection. This process therefore only
serves its owner, and its child process, the *worker*, holds the connection. To stop the fingers,
or if the robot does not respond, it kills the worker and forks a new one within milliseconds.

Standard input has one command per line, as a JSON object with ``number`` and the fields of
:class:`.GripperCommand`. Standard output has these messages:

- ``width``, ``max_width`` and ``is_grasped``: measurement, at the rate of the gripper.
- ``done``, ``outcome`` and ``text``: result of the command with the number ``done``.
- ``problem``: problem of the connection.
- Empty object: heartbeat.

The end of the input ends both processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

from multipanda_py.hardware.franka.gripper_worker import load_library, send_line, work
from multipanda_py.registry import missing
from multipanda_py.robots.gripper import MAX_SPEED, MAX_WIDTH, Action, Outcome

TIMEOUT = 5.0
"""Timeout of a response, in addition to the time to close and open the fingers [s]."""
SIGN_OF_LIFE = 0.2
"""Maximum time between two lines to the owner [s]."""
CONNECT_TIMEOUT = 5.0
"""Timeout of the connection [s]."""


class Worker:
    """Child process that holds the connection.

    Args:
        library: Module pylibfranka.
        address: Address of the robot.

    Attributes:
        fd: File descriptor of its output.
        number: Number of the command that it executes, or 0.
        problem: Reason for its end, as it reports it.
        deadline: Deadline of its next message, CLOCK_MONOTONIC [s].
    """

    def __init__(self, library: Any, address: str) -> None:
        commands, self._commands = os.pipe()
        self.fd, answers = os.pipe()
        self.number, self.problem = 0, ""
        self.deadline = time.monotonic() + CONNECT_TIMEOUT
        owner = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._commands)
            os.close(self.fd)
            work(library, address, commands, answers, owner)  # This call does not return.
        os.close(commands)
        os.close(answers)

    def send(self, command: dict[str, Any]) -> None:
        self.number = command["number"]
        time_to_go = 2.0 * MAX_WIDTH / (command["speed"] or MAX_SPEED)
        self.deadline = max(time.monotonic() + time_to_go + TIMEOUT, self.deadline)
        os.write(self._commands, (json.dumps(command) + "\n").encode())

    def kill(self) -> None:
        """Kill the worker, which closes its connection."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._commands)
        os.close(self.fd)


class Supervisor:
    """Supervisor that forwards commands to a worker, and ensures a response to each of them.

    Args:
        library: Module pylibfranka.
        address: Address of the robot.
    """

    def __init__(self, library: Any, address: str) -> None:
        self._library, self._address = library, address
        self._reported = bytearray()
        self._latest = bytearray()
        self._worker: Worker | None = Worker(library, address)

    def run(self) -> None:
        """Run until the owner has ended."""
        try:
            while self._serve():
                pass
        finally:
            if self._worker is not None:
                self._worker.kill()

    def _serve(self) -> bool:
        """Process new input of owner and worker; return False if the owner has ended."""
        worker = self._worker
        fds = [0] if worker is None else [0, worker.fd]
        ready = select.select(fds, [], [], SIGN_OF_LIFE)[0]
        if not ready:
            send_line(1)
        if worker is not None and worker.fd in ready:
            self._pass_on(worker)
        elif worker is not None and time.monotonic() > worker.deadline:
            self._drop(Outcome.FAILED, f"no response from {self._address}; connection closed")
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return False
            self._latest += data
            while b"\n" in self._latest:
                line, _, rest = bytes(self._latest).partition(b"\n")
                self._latest[:] = rest
                self._command(json.loads(line))
        return True

    def _command(self, command: dict[str, Any]) -> None:
        if self._worker is not None and self._worker.number:
            stop = command["action"] == Action.STOP
            self._drop(Outcome.ABORTED, "stopped" if stop else "ended by a newer command")
        if self._worker is None:
            self._reported.clear()
            self._worker = Worker(self._library, self._address)
        self._worker.send(command)

    def _pass_on(self, worker: Worker) -> None:
        """Forward the messages of the worker to the owner."""
        data = os.read(worker.fd, 65536)
        if not data:
            text = worker.problem or f"the connection to {self._address} is lost"
            self._drop(Outcome.FAILED, text)
            return
        self._reported += data
        end = self._reported.rfind(b"\n") + 1
        lines, self._reported[:] = bytes(self._reported[:end]), self._reported[end:]
        for line in lines.splitlines():
            message = json.loads(line)
            worker.problem = message.get("problem", "")
            if message.get("done") == worker.number:
                worker.number = 0
        if lines:
            os.write(1, lines)
        if not worker.number:
            worker.deadline = time.monotonic() + TIMEOUT

    def _drop(self, outcome: Outcome, text: str) -> None:
        """Kill the worker, and report the outcome of its command to the owner."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.kill()
        if outcome is Outcome.FAILED:
            send_line(1, problem=text)
        if worker.number:
            send_line(1, done=worker.number, outcome=outcome, text=text)


def main() -> int:
    """Serve one gripper until the owner has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # The gripper process does not keep the priority of its owner.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        library = load_library()
    except ImportError as error:
        send_line(1, problem=f"pylibfranka cannot be imported ({error}): {missing('pylibfranka')}")
        return 1
    with contextlib.suppress(BrokenPipeError):  # The owner was killed.
        Supervisor(library, sys.argv[1]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
