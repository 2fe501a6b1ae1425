# SPDX-License-Identifier: Apache-2.0
"""The back door for tests: JSON lines on port 7331 of every robot's address.

A request is ``{"command": NAME, ...}``, the answer ``{"ok": true, ...}`` or
``{"ok": false, "error": "..."}``. Commands are the methods ``do_...`` of :class:`Admin`. With
``"at": CYCLE`` a command waits until a motion has had so many cycles: in lockstep, the same
fault then comes in the same cycle every time.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from multipanda_py.exceptions import BackendError, ConfigurationError, UnknownName
from multipanda_py.fci_sim.station import Station
from multipanda_py.fci_sim.tcp import listen
from multipanda_py.fci_sim.wire import Mode, MoveStatus

ADMIN_PORT = 7331
Result = dict[str, Any]


class Admin:
    """What can be done to a robot from outside."""

    def __init__(self, station: Station) -> None:
        self._station = station

    def execute(self, request: Result) -> Result:
        """Execute a request; refuse in words what cannot be done."""
        arguments = dict(request)
        name = str(arguments.pop("command", ""))
        at = arguments.pop("at", None)
        function = getattr(self, f"do_{name}", None)
        try:
            if function is None:
                known = [item[3:] for item in dir(self) if item.startswith("do_")]
                raise UnknownName("command", name, known)
            if at is not None:
                signature(function).bind(**arguments)
                later = {key: value for key, value in request.items() if key != "at"}
                self._station.plan(int(at), lambda: self.execute(later))
                return {"ok": True}
            return {"ok": True} | (function(**arguments) or {})
        except (BackendError, ConfigurationError, TypeError, ValueError) as error:
            return {"ok": False, "error": str(error)}

    def do_stats(self) -> Result:
        """Return what was counted, and how the robot is."""
        station = self._station
        robot, gripper = station.robot, station.gripper
        return robot.cycles.summary() | {
            "mode": robot.mode.name.lower(),
            "running": station.running,
            "connected": station.port.peer is not None,
            "refused": station.port.refused,
            "message_id": robot.message_id,
            "errors": list(robot.errors),
            "q": robot.world.q.tolist(),
            "dq": robot.world.dq.tolist(),
            "width": gripper.width,
            "is_grasped": gripper.is_grasped,
        }

    def do_reset_stats(self) -> None:
        """Start counting anew."""
        self._station.robot.cycles.reset()

    def do_log(self) -> Result:
        """Return the newest commands, oldest first."""
        return {"commands": self._station.robot.cycles.log()}

    def do_push(self, tau: Sequence[float] = (), wrench: Sequence[float] = ()) -> None:
        """Push until told otherwise: joint torques [Nm], a wrench on the end effector [N, Nm].

        The wrench is in the base's axes. What is left out is zero.
        """
        robot = self._station.robot
        robot.tau_push = _vector("tau", tau, 7)
        robot.wrench_push = _vector("wrench", wrench, 6)

    def do_place(self, q: Sequence[float]) -> None:
        """Put the arm, which must be idle, at joint positions [rad]."""
        robot = self._station.robot
        if robot.mode is not Mode.IDLE:
            raise ConfigurationError(f"place needs an idle robot, it is {robot.mode.name}")
        robot.hold_q = _vector("q", q, 7)
        robot.world.place(robot.hold_q)

    def do_fault(self, errors: Sequence[str]) -> None:
        """Raise errors by name."""
        self._station.robot.fault(*errors)

    def do_user_stop(self, pressed: bool) -> None:
        """Press or release the user stop."""
        self._station.robot.user_stop(pressed)

    def do_guiding(self, pressed: bool) -> None:
        """Press or release the guiding button."""
        self._station.robot.guiding(pressed)

    def do_end_motion(self, status: str) -> None:
        """End the running motion with an answer that libfranka knows, by its name."""
        names = [item.name.lower() for item in MoveStatus]
        if status not in names:
            raise UnknownName("status", status, names)
        self._station.robot.end_motion(MoveStatus[status.upper()])

    def do_object(self, width: float) -> None:
        """Put an object between the fingers; 0 takes it away [m]."""
        self._station.gripper.put_object(width)

    def do_drop(self, states: int = 0, commands: int = 0, probability: float = 0.0) -> None:
        """Lose the next states and commands, and any datagram with a probability."""
        link = self._station.link
        link.lose_states, link.lose_commands, link.probability = states, commands, probability

    def do_delay(self, milliseconds: float) -> None:
        """Delay every datagram, both ways."""
        self._station.link.delay = round(milliseconds * 1e6)

    def do_kill_udp(self) -> None:
        """Let no datagram pass any more."""
        self._station.link.dead = True

    def do_kill_tcp(self) -> None:
        """Close the TCP connection to the client."""
        self._station.port.hang_up()

    def do_heal(self) -> None:
        """Make the network perfect again."""
        self._station.link.heal()

    def do_reboot(self, seconds: float = 1.0) -> None:
        """Switch the robot off, and on again after some time."""
        self._station.reboot(seconds)

    def do_version(self, robot: int, gripper: int | None = None) -> None:
        """Pretend to speak other protocol versions."""
        self._station.version = robot
        if gripper is not None:
            self._station.gripper.version = gripper


def _vector(name: str, values: Sequence[float], size: int) -> np.ndarray[Any, Any]:
    """Return numbers as an array, zeros if there are none."""
    array = np.array(values if len(values) else [0.0] * size, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ConfigurationError(f"{name} must be {size} finite numbers, got {list(values)}")
    return array


class AdminPort:
    """Serve :class:`Admin` to any number of clients."""

    def __init__(self, selector: selectors.BaseSelector, address: str, admin: Admin) -> None:
        self._selector, self._admin = selector, admin
        self._listener = listen(address, ADMIN_PORT)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.settimeout(1.0)
        received = bytearray()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client, received))

    def _read(self, client: socket.socket, received: bytearray) -> None:
        try:
            data = client.recv(65536)
            received += data
            while b"\n" in received:
                line, _, rest = bytes(received).partition(b"\n")
                received[:] = rest
                client.sendall(json.dumps(self._answer(line)).encode() + b"\n")
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(client)
            client.close()

    def _answer(self, line: bytes) -> Result:
        try:
            request = json.loads(line)
        except ValueError as error:
            return {"ok": False, "error": f"not JSON: {error}"}
        if not isinstance(request, dict):
            return {"ok": False, "error": "a request is a JSON object"}
        return self._admin.execute(request)


class AdminClient:
    """Ask the admin port of a robot."""

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection((address, ADMIN_PORT), timeout=timeout)
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def request(self, command: str, **arguments: Any) -> Result:
        """Have a command executed and return the answer.

        Raises:
            BackendError: If it was refused or nobody answered.
        """
        try:
            line = json.dumps({"command": command, **arguments}) + "\n"
            self._socket.sendall(line.encode())
            text = self._answers.readline()
        except OSError as error:
            raise BackendError(f"no answer from the simulated robot: {error}") from error
        if not text:
            raise BackendError("the simulated robot has gone")
        answer: Result = json.loads(text)
        if not answer.pop("ok"):
            raise BackendError(f"{command}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()
