# SPDX-License-Identifier: Apache-2.0
"""The back door for tests and demonstrations: what can be done to a robot from outside.

It is open on port 7331 of every robot's address, see :mod:`~multipanda_py.simulation.fci.admin`,
and ``multipanda inject`` knocks there. A request is ``{"command": NAME, ...}``, the answer
``{"ok": true, ...}`` or ``{"ok": false, "error": "..."}``. Commands are the methods ``do_...``
of :class:`Admin`, in the order in which the command line lists them. With ``"at": CYCLE`` a
command waits until a motion has had so many cycles: in lockstep, the same fault then comes in
the same cycle every time.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.exceptions import BackendError, ConfigurationError, UnknownName
from multipanda_py.simulation.fci.arguments import check, check_cycle, find
from multipanda_py.simulation.fci.network import listen
from multipanda_py.simulation.fci.wire import Mode, MoveStatus

if TYPE_CHECKING:
    from multipanda_py.simulation.fci.control_unit import ControlUnit


ADMIN_PORT = 7331
LONGEST_REQUEST = 1 << 20
"""Of a line that has not ended; who sends more is hung up on [bytes]."""
Result = dict[str, Any]


class AdminPort:
    """Serve :class:`.Admin` to any number of clients."""

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
            if len(received) > LONGEST_REQUEST:
                data = b""
                received.clear()
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
        except (ValueError, RecursionError) as error:
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


class Admin:
    """What can be done to a robot from outside."""

    def __init__(self, unit: ControlUnit) -> None:
        self._unit = unit

    def execute(self, request: Result) -> Result:
        """Execute a request; refuse in words what cannot be done."""
        arguments = dict(request)
        name = str(arguments.pop("command", ""))
        at = arguments.pop("at", None)
        try:
            function = find(self, name)
            check(function, arguments)
            if at is not None:
                check_cycle(at)
                later = {key: value for key, value in request.items() if key != "at"}
                self._unit.plan(at, lambda: self.execute(later))
                return {"ok": True}
            return {"ok": True} | (function(**arguments) or {})
        except (BackendError, ConfigurationError, TypeError, ValueError) as error:
            return {"ok": False, "error": str(error)}

    def do_reflex(self, error: str = "joint_reflex") -> None:
        """Stop with an error, as after a collision."""
        self._unit.robot.fault(error)

    def do_fault(self, errors: Sequence[str]) -> None:
        """Stop with any of libfranka's errors, by name."""
        self._unit.robot.fault(*errors)

    def do_user_stop(self, pressed: bool = True) -> None:
        """Press the user stop, or release it."""
        self._unit.robot.user_stop(pressed)

    def do_guiding(self, pressed: bool = True) -> None:
        """Press the guiding button, or release it."""
        self._unit.robot.guiding(pressed)

    def do_release(self) -> None:
        """Release user stop and guiding button."""
        self._unit.robot.user_stop(False)
        self._unit.robot.guiding(False)

    def do_drop(self, states: int = 0, commands: int = 0, probability: float = 0.0) -> None:
        """Lose the next states and commands, and any datagram by chance; 20 in a row are fatal."""
        link = self._unit.link
        link.lose_states, link.lose_commands, link.probability = states, commands, probability

    def do_delay(self, milliseconds: float) -> None:
        """Delay every datagram, both ways [ms]."""
        self._unit.link.delay = round(milliseconds * 1e6)

    def do_kill_udp(self) -> None:
        """Let no datagram pass any more: a dead link."""
        self._unit.link.dead = True

    def do_kill_tcp(self) -> None:
        """Close the TCP connection to the client."""
        self._unit.port.hang_up()

    def do_heal(self) -> None:
        """Make the network perfect again: no delay, no loss, no dead link."""
        self._unit.link.heal()

    def do_reboot(self, seconds: float = 1.0) -> None:
        """Switch the robot off, and on again after some time [s]."""
        self._unit.reboot(seconds)

    def do_version(self, robot: int, gripper: int | None = None) -> None:
        """Pretend to speak other protocol versions."""
        self._unit.version = robot
        if gripper is not None:
            self._unit.gripper.version = gripper

    def do_report_measured(self, measured: bool = True) -> None:
        """Report measured positions as q_d and accept any motion, as some simulated robots do."""
        self._unit.robot.reports_measured = measured

    def do_end_motion(self, status: str) -> None:
        """End the running motion with an answer that libfranka knows, by its name."""
        names = [item.name.lower() for item in MoveStatus]
        if status not in names:
            raise UnknownName("status", status, names)
        self._unit.robot.end_motion(MoveStatus[status.upper()])

    def do_push(self, tau: Sequence[float] = (), wrench: Sequence[float] = ()) -> None:
        """Push until told otherwise: joint torques [Nm], a wrench on the end effector [N, Nm].

        The wrench is in the base's axes. What is left out is zero.
        """
        robot = self._unit.robot
        robot.tau_push = _vector("tau", tau, 7)
        robot.wrench_push = _vector("wrench", wrench, 6)

    def do_place(self, q: Sequence[float]) -> None:
        """Put the arm, which must be idle, at joint positions [rad]."""
        robot = self._unit.robot
        if robot.mode is not Mode.IDLE:
            raise ConfigurationError(f"place needs an idle robot, it is {robot.mode.name}")
        robot.hold_q = _vector("q", q, 7)
        robot.physics.place(robot.hold_q)

    def do_object(self, width: float) -> None:
        """Put an object between the fingers; 0 takes it away [m]."""
        self._unit.gripper.put_object(width)

    def do_put_back(self) -> None:
        """Put everything in the world that can be moved back to where it was at first."""
        if not self._unit.robot.physics.world.put_back():
            raise BackendError("something is in the way of what is to be put back")

    def do_things(self) -> Result:
        """Return where everything in the world is that can be moved."""
        return {"things": self._unit.robot.physics.world.places()}

    def do_stats(self) -> Result:
        """Return what was counted, and how the robot is."""
        unit = self._unit
        robot, gripper, motion = unit.robot, unit.gripper, unit.robot.motion
        return robot.cycles.summary() | {
            "mode": robot.mode.name.lower(),
            "generator": motion.generator.name.lower() if motion else "idle",
            "controller": motion.controller.name.lower() if motion else "other",
            "q_d": (motion.q_d if motion else robot.hold_q).tolist(),
            "running": unit.running,
            "connected": unit.port.peer is not None,
            "refused": unit.port.refused,
            "message_id": robot.message_id,
            "errors": list(robot.errors),
            "q": robot.physics.q.tolist(),
            "dq": robot.physics.dq.tolist(),
            "width": gripper.width,
            "is_grasped": gripper.is_grasped,
        }

    def do_state(self) -> Result:
        """Return the newest state that the robot sent, by field of the datagram."""
        fields = self._unit.robot.state.datagram.fields
        return {name: values.tolist() for name, values in fields.items()}

    def do_settings(self) -> Result:
        """Return what the client has told the robot: load, thresholds, stiffness."""
        robot = self._unit.robot
        load, thresholds = robot.load, robot.thresholds
        return {
            "load_mass": load.mass,
            "load_com": load.com.tolist(),
            "load_inertia": load.inertia.tolist(),
            "upper_torque_thresholds": thresholds.upper_torque.tolist(),
            "upper_force_thresholds": thresholds.upper_force.tolist(),
            "joint_impedance": robot.stiffness.tolist(),
        }

    def do_reset_stats(self) -> None:
        """Start counting anew."""
        self._unit.robot.cycles.reset()

    def do_keep(self, commands: int = 100) -> None:
        """Begin a new log, of the newest so many commands."""
        self._unit.robot.cycles.keep(commands)

    def do_log(self, skip: int = 0, most: int = 1000) -> Result:
        """Return the log, oldest first, in parts: without the first ones, at most so many."""
        return {"commands": self._unit.robot.cycles.log(skip, most)}


def _vector(name: str, values: Sequence[float], size: int) -> np.ndarray[Any, Any]:
    """Return numbers as an array, zeros if there are none."""
    array = np.array(values if len(values) else [0.0] * size, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ConfigurationError(f"{name} must be {size} finite numbers, got {list(values)}")
    return array
