# SPDX-License-Identifier: Apache-2.0
"""Process of a real gripper: ``python -m multipanda_py.hardware.franka.gripper_process ADDRESS``.

A call of libfranka blocks its process for seconds, or forever if the robot disappears. A child
process, the *worker*, therefore holds the connection to the robot. This process, the supervisor,
exchanges messages with the process that started it, the *owner*. To stop the fingers, or if the
robot does not respond, the supervisor kills the worker and forks a new one.

Standard input has one command per line, as a JSON object with ``number`` and the fields of
:class:`.GripperCommand`. Standard output has these messages:

- ``width``, ``max_width`` and ``is_grasped``: measurement, at the rate of the gripper.
- ``done``, ``outcome`` and ``text``: result of a command; ``done`` is the number of the command.
- ``problem``: problem of the connection.
- Empty object: heartbeat.

The end of standard input ends supervisor and worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from importlib import import_module
from typing import Any, NoReturn

from multipanda_py.registry import missing
from multipanda_py.robots.gripper import MAX_SPEED, MAX_WIDTH, Action, Outcome

CONNECT_RETRY_TIME = 1.0
"""Time for which a rejected connection is tried again, because the previous connection may still
be open [s]."""
_PR_SET_PDEATHSIG = 1


def load_library() -> Any:
    """Import pylibfranka.

    Raises:
        ImportError: If it is not installed, or not compatible with this machine.
    """
    return import_module("pylibfranka")


def send_line(fd: int, **message: object) -> None:
    """Write a message as one line of JSON to a file descriptor."""
    os.write(fd, (json.dumps(message) + "\n").encode())


def work(library: Any, address: str, commands: int, answers: int, owner: int) -> NoReturn:
    """Execute commands from one pipe, and write results to another pipe; never returns.

    Args:
        library: Module pylibfranka.
        address: Address of the robot.
        commands: File descriptor from which commands are read.
        answers: File descriptor to which measurements and results are written.
        owner: Id of the parent process; the worker ends with it.
    """
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == owner:
            _serve(_connect(library, address), commands, answers)
    except Exception as error:
        send_line(answers, problem=f"{address}: {' '.join(str(error).split())}")
    finally:
        os._exit(1)


def _connect(library: Any, address: str) -> Any:
    deadline = time.monotonic() + CONNECT_RETRY_TIME
    while True:
        try:
            hand = library.Gripper(address)
        except library.NetworkException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            # libfranka sets a real-time priority. A gripper does not need it, and must not delay
            # the drivers of arms.
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            return hand


def _serve(hand: Any, commands: int, answers: int) -> None:
    received = bytearray()
    while True:
        while not select.select([commands], [], [], 0.0)[0]:
            _send_next_state(hand, answers)
        data = os.read(commands, 65536)
        if not data:
            return
        received += data
        while b"\n" in received:
            line, _, rest = bytes(received).partition(b"\n")
            received[:] = rest
            _execute(hand, json.loads(line), answers)


def _send_next_state(hand: Any, answers: int) -> None:
    # Waits for the next state, at 20 Hz.
    state = hand.read_once()
    send_line(
        answers,
        width=state.width,
        max_width=state.max_width,
        is_grasped=bool(state.is_grasped),
    )


def _execute(hand: Any, command: dict[str, Any], answers: int) -> None:
    text = ""
    try:
        done = _call(hand, command)
        outcome = Outcome.SUCCEEDED if done else Outcome.UNSUCCESSFUL
    except RuntimeError as error:  # CommandException or NetworkException of libfranka.
        text = " ".join(str(error).split())
        outcome = Outcome.ABORTED if "abort" in text.lower() else Outcome.FAILED
    else:
        _send_next_state(hand, answers)
    send_line(answers, done=command["number"], outcome=outcome, text=text)


def _call(hand: Any, command: dict[str, Any]) -> bool:
    action, width, speed = Action(command["action"]), command["width"], command["speed"]
    if action is Action.HOMING:
        return bool(hand.homing())
    if action is Action.MOVE:
        return bool(hand.move(width, speed))
    if action is Action.GRASP:
        epsilons = command["epsilon_inner"], command["epsilon_outer"]
        return bool(hand.grasp(width, speed, command["force"], *epsilons))
    return bool(hand.stop())


RESPONSE_TIMEOUT = 5.0
"""Timeout of a response of the worker, in addition to the time to close and open the fingers
[s]."""
HEARTBEAT_PERIOD = 0.2
"""Maximum time between two lines to the owner [s]."""
CONNECT_TIMEOUT = 5.0
"""Timeout of the connection [s]."""


class Worker:
    """Child process that holds the connection to the gripper.

    Attributes:
        fd: File descriptor from which the worker's messages are read.
        number: Number of the command that the worker executes; 0 without a command.
        problem: Reason for the end of the worker, from its last message; empty without a reason.
        deadline: Deadline of the worker's next message, CLOCK_MONOTONIC [s].
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
            work(library, address, commands, answers, owner)  # Runs in the child, never returns.
        os.close(commands)
        os.close(answers)

    def send(self, command: dict[str, Any]) -> None:
        self.number = command["number"]
        time_to_go = 2.0 * MAX_WIDTH / (command["speed"] or MAX_SPEED)
        self.deadline = max(time.monotonic() + time_to_go + RESPONSE_TIMEOUT, self.deadline)
        # A worker that has just ended cannot read. The supervisor detects its end later, when it
        # reads the worker's messages.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, (json.dumps(command) + "\n").encode())

    def kill(self) -> None:
        """Kill the worker, which closes its connection."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._commands)
        os.close(self.fd)


class Supervisor:
    """Supervisor that forwards commands to a worker, and replaces the worker if it must be killed.

    Every command gets a result, also if the worker ends before it has sent one.
    """

    def __init__(self, library: Any, address: str) -> None:
        self._library, self._address = library, address
        self._worker_output = bytearray()
        self._owner_input = bytearray()
        self._worker: Worker | None = Worker(library, address)

    def run(self) -> None:
        """Forward commands and results until the owner has ended."""
        try:
            while self._process_input():
                pass
        finally:
            if self._worker is not None:
                self._worker.kill()

    def _process_input(self) -> bool:
        """Process new input from owner and worker; return False if the owner has ended."""
        worker = self._worker
        fds = [0] if worker is None else [0, worker.fd]
        ready = select.select(fds, [], [], HEARTBEAT_PERIOD)[0]
        if not ready:
            send_line(1)
        if worker is not None and worker.fd in ready:
            self._forward_messages(worker)
        elif worker is not None and time.monotonic() > worker.deadline:
            self._kill_worker(
                Outcome.FAILED, f"no response from {self._address}; connection closed"
            )
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return False
            self._owner_input += data
            while b"\n" in self._owner_input:
                line, _, rest = bytes(self._owner_input).partition(b"\n")
                self._owner_input[:] = rest
                self._command(json.loads(line))
        return True

    def _command(self, command: dict[str, Any]) -> None:
        if self._worker is not None and self._worker.number:
            stop = command["action"] == Action.STOP
            self._kill_worker(Outcome.ABORTED, "stopped" if stop else "ended by a newer command")
        if self._worker is None:
            self._worker_output.clear()
            self._worker = Worker(self._library, self._address)
        self._worker.send(command)

    def _forward_messages(self, worker: Worker) -> None:
        data = os.read(worker.fd, 65536)
        if not data:
            text = worker.problem or f"the connection to {self._address} is lost"
            self._kill_worker(Outcome.FAILED, text)
            return
        self._worker_output += data
        end = self._worker_output.rfind(b"\n") + 1
        lines, self._worker_output[:] = bytes(self._worker_output[:end]), self._worker_output[end:]
        for line in lines.splitlines():
            message = json.loads(line)
            worker.problem = message.get("problem", "")
            if message.get("done") == worker.number:
                worker.number = 0
        if lines:
            os.write(1, lines)
        if not worker.number:
            worker.deadline = time.monotonic() + RESPONSE_TIMEOUT

    def _kill_worker(self, outcome: Outcome, reason: str) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.kill()
        if outcome is Outcome.FAILED:
            send_line(1, problem=reason)
        if worker.number:
            send_line(1, done=worker.number, outcome=outcome, text=reason)


def main() -> int:
    """Serve one gripper until the owner has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The process may have inherited a real-time priority, which it does not need.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(BrokenPipeError):  # The owner was killed.
        try:
            library = load_library()
        except ImportError as error:
            install = missing("pylibfranka")
            send_line(1, problem=f"pylibfranka cannot be imported ({error}): {install}")
            return 1
        Supervisor(library, sys.argv[1]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
