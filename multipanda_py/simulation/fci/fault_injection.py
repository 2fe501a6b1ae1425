# SPDX-License-Identifier: Apache-2.0
"""Fault injection port of a simulated robot, for tests and demonstrations.

The TCP port 7331 is open at every robot's address; ``multipanda inject`` is its client. A request
is a JSON line ``{"command": NAME, ...}``. The answer is ``{"ok": true, ...}`` or
``{"ok": false, "error": "..."}``. The commands are the methods ``do_...`` of :class:`Admin`; the
help of ``multipanda inject`` lists them in the order of their definition.

With ``"at": CYCLE`` a command waits until a motion has had that many cycles. A repeated test in
lockstep then has its fault always in the same cycle.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.exceptions import BackendError, ConfigurationError, UnknownName
from multipanda_py.simulation.fci.arguments import check_arguments, check_cycle, find_command
from multipanda_py.simulation.fci.network import listen
from multipanda_py.simulation.fci.wire import Mode, MoveStatus

if TYPE_CHECKING:
    from multipanda_py.simulation.fci.control_unit import ControlUnit


ADMIN_PORT = 7331
"""TCP port of every simulated robot for fault injection."""
MAX_REQUEST_SIZE = 1 << 20
"""Maximum size of an unfinished line, above which the connection is closed [bytes]."""
Result = dict[str, Any]


class AdminPort:
    """TCP server of the fault injection port, for any number of clients.

    Args:
        selector: Selector of the server, which reports new data.
        address: IP address on which it listens.
        admin: Commands of the robot, which execute the requests.
    """

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
            if len(received) > MAX_REQUEST_SIZE:
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
            return {"ok": False, "error": "a request must be a JSON object"}
        return self._admin.execute(request)


class AdminClient:
    """Client of a robot's fault injection port.

    Args:
        address: IP address of the simulated robot.
        timeout: Timeout of connections and answers [s].
    """

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection((address, ADMIN_PORT), timeout=timeout)
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def request(self, command: str, **arguments: Any) -> Result:
        """Execute a command by name and return the values of its answer.

        Raises:
            BackendError: If the robot rejects it or does not answer.
        """
        try:
            line = json.dumps({"command": command, **arguments}) + "\n"
            self._socket.sendall(line.encode())
            text = self._answers.readline()
        except OSError as error:
            raise BackendError(
                f"the simulated robot does not answer: {error}. Check that it runs"
            ) from error
        if not text:
            raise BackendError("the simulated robot has closed the connection. Connect again")
        answer: Result = json.loads(text)
        if not answer.pop("ok"):
            raise BackendError(f"{command}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()


class Admin:
    """Commands of the fault injection port for one simulated robot: its methods ``do_<name>``."""

    def __init__(self, unit: ControlUnit) -> None:
        self._unit = unit

    def execute(self, request: Result) -> Result:
        """Execute a request, at once or in a later cycle, and return the answer.

        Args:
            request: Name of the ``command``, its arguments, and optionally the cycle number
                ``at``.

        Returns:
            ``ok`` and the results of the command; after a failure ``ok``, False, and ``error``.
        """
        arguments = dict(request)
        name = str(arguments.pop("command", ""))
        at = arguments.pop("at", None)
        try:
            function = find_command(self, name)
            check_arguments(function, arguments)
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
        """Stop with one or several errors of libfranka, given by name."""
        self._unit.robot.fault(*errors)

    def do_user_stop(self, pressed: bool = True) -> None:
        """Press or release the user stop."""
        self._unit.robot.user_stop(pressed)

    def do_guiding(self, pressed: bool = True) -> None:
        """Press or release the guiding button."""
        self._unit.robot.guiding(pressed)

    def do_release(self) -> None:
        """Release user stop and guiding button."""
        self._unit.robot.user_stop(False)
        self._unit.robot.guiding(False)

    def do_drop(self, states: int = 0, commands: int = 0, probability: float = 0.0) -> None:
        """Lose the next states and commands, and later ones at random; 20 in a row end a motion.

        Args:
            states: Number of next states to lose.
            commands: Number of next commands to lose.
            probability: Probability with which each datagram after these is lost, 0 to 1.
        """
        link = self._unit.link
        link.lose_states, link.lose_commands, link.probability = states, commands, probability

    def do_delay(self, milliseconds: float) -> None:
        """Delay every datagram in both directions [ms]."""
        self._unit.link.delay = round(milliseconds * 1e6)

    def do_kill_udp(self) -> None:
        """Lose all datagrams in both directions, as with a broken cable."""
        self._unit.link.dead = True

    def do_kill_tcp(self) -> None:
        """Close the TCP connection to the client."""
        self._unit.port.hang_up()

    def do_heal(self) -> None:
        """Restore the network: no delay, no lost datagrams."""
        self._unit.link.heal()

    def do_reboot(self, seconds: float = 1.0) -> None:
        """Switch the robot off, and on again after some time [s]."""
        self._unit.reboot(seconds)

    def do_version(self, robot: int, gripper: int | None = None) -> None:
        """Report other protocol versions, as after an update of the robot.

        Args:
            robot: Protocol version of the robot.
            gripper: Protocol version of the gripper; None: unchanged.
        """
        self._unit.version = robot
        if gripper is not None:
            self._unit.gripper.version = gripper

    def do_report_measured(self, measured: bool = True) -> None:
        """Report measured positions as q_d, and accept commands that violate limits of motions."""
        self._unit.robot.reports_measured = measured

    def do_end_motion(self, status: str) -> None:
        """End the running motion with a status of libfranka, such as ``preempted``."""
        names = [item.name.lower() for item in MoveStatus]
        if status not in names:
            raise UnknownName("status", status, names)
        self._unit.robot.end_motion(MoveStatus[status.upper()])

    def do_push(self, tau: Sequence[float] = (), wrench: Sequence[float] = ()) -> None:
        """Apply joint torques [Nm] and a wrench on the end effector [N, Nm] until the next push.

        The wrench is along the axes of the base. Omitted values are zero.
        """
        robot = self._unit.robot
        robot.tau_push = _checked_vector("tau", tau, 7)
        robot.wrench_push = _checked_vector("wrench", wrench, 6)

    def do_place(self, q: Sequence[float]) -> None:
        """Move an idle arm to joint positions [rad] at once."""
        robot = self._unit.robot
        if robot.mode is not Mode.IDLE:
            raise ConfigurationError(f"place: the robot must be idle, got mode {robot.mode.name}")
        robot.hold_q = _checked_vector("q", q, 7)
        robot.physics.reset_to(robot.hold_q)

    def do_object(self, width: float) -> None:
        """Put an object of a width [m] between the fingers; 0 removes it."""
        self._unit.gripper.put_object(width)

    def do_put_back(self) -> None:
        """Move all movable objects back to their initial poses."""
        if not self._unit.robot.physics.world.put_back():
            raise BackendError(
                "another body is at the initial pose of an object, so nothing was moved. Move "
                "this body away first"
            )

    def do_things(self) -> Result:
        """Return the positions of all movable objects."""
        return {"things": self._unit.robot.physics.world.object_positions()}

    def do_stats(self) -> Result:
        """Return cycle counters and the state of robot, connection and gripper."""
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
        """Return the latest state that the robot sent, by field of the datagram."""
        fields = self._unit.robot.state.datagram.fields
        return {name: values.tolist() for name, values in fields.items()}

    def do_settings(self) -> Result:
        """Return the settings made by the client: load, thresholds, stiffness."""
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
        """Reset the counters that ``stats`` returns."""
        self._unit.robot.cycles.reset()

    def do_keep(self, commands: int = 100) -> None:
        """Clear the log of commands, and set the maximum number of commands in it."""
        self._unit.robot.cycles.keep(commands)

    def do_log(self, skip: int = 0, max_count: int = 1000) -> Result:
        """Return logged commands, oldest first: up to ``max_count`` after the first ``skip``."""
        return {"commands": self._unit.robot.cycles.log(skip, max_count)}


def _checked_vector(name: str, values: Sequence[float], size: int) -> np.ndarray[Any, Any]:
    # An empty list stands for zeros.
    array = np.array(values if len(values) else [0.0] * size, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ConfigurationError(f"{name}: needs {size} finite numbers, got {list(values)}")
    return array
