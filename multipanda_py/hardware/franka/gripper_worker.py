# SPDX-License-Identifier: Apache-2.0
"""Worker process that holds the connection to a real gripper and may be killed at any time."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from importlib import import_module
from typing import Any, NoReturn

from multipanda_py.robots.gripper import Action, Outcome

CONNECT_TIME = 1.0
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
    """Write one line of JSON."""
    os.write(fd, (json.dumps(message) + "\n").encode())


def work(library: Any, address: str, commands: int, answers: int, owner: int) -> NoReturn:
    """Execute commands from one pipe and write results to the other; never returns.

    Args:
        library: Module pylibfranka.
        address: Address of the robot.
        commands: File descriptor to read from.
        answers: File descriptor to write to.
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
    deadline = time.monotonic() + CONNECT_TIME
    while True:
        try:
            hand = library.Gripper(address)
        except library.NetworkException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            # libfranka may have set a real-time priority, which only drivers of arms need.
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            return hand


def _serve(hand: Any, commands: int, answers: int) -> None:
    received = bytearray()
    while True:
        while not select.select([commands], [], [], 0.0)[0]:
            _measure(hand, answers)
        data = os.read(commands, 65536)
        if not data:
            return
        received += data
        while b"\n" in received:
            line, _, rest = bytes(received).partition(b"\n")
            received[:] = rest
            _execute(hand, json.loads(line), answers)


def _measure(hand: Any, answers: int) -> None:
    """Wait for the next state, which comes at 20 Hz, and forward it."""
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
    except RuntimeError as error:  # Base class of CommandException and NetworkException.
        text = " ".join(str(error).split())
        outcome = Outcome.ABORTED if "abort" in text.lower() else Outcome.FAILED
    else:
        _measure(hand, answers)
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
