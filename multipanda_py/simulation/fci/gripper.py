# SPDX-License-Identifier: Apache-2.0
"""Simulated gripper of a Franka robot: motion of its fingers and its network protocol."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.franka import FINGER_FORCE, FINGER_UPPER, FINGER_VELOCITY
from multipanda_py.simulation.fci.wire import (
    CONNECT,
    GRIPPER_STATE,
    GRIPPER_VERSION,
    GripperRequest,
    GripperStatus,
)
from multipanda_py.simulation.fci.world import PERIOD

Answer = Callable[[int, int, bytes], None]

MAX_WIDTH = 2.0 * FINGER_UPPER
STATE_CYCLES = 50
"""Time between two states [ms]; 20 Hz is assumed."""
TEMPERATURE = 30  # Reported temperature [deg C].
_GRASP = struct.Struct("<5d")
_MOVE = struct.Struct("<2d")
_STATUS = struct.Struct("<H")


class GripperServer:
    """Simulated gripper with its network protocol.

    It grasps an object from :meth:`put_object`, not from a simulated scene.

    Args:
        address: IP address of the simulated robot.
        answer: Function that sends type, number and body of an answer to the client.

    Attributes:
        width: Width between the fingers [m].
        object_width: Width of the object between the fingers, 0 for none [m].
        is_grasped: True if the last grasp holds an object.
        force: Force of the last grasp [N].
        version: Protocol version in the answer to Connect.
        peer: Address and UDP port to which states are sent; None without a client.
    """

    def __init__(self, address: str, answer: Answer) -> None:
        self._answer = answer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.width, self.object_width, self.force = MAX_WIDTH / 2.0, 0.0, 0.0
        self.is_grasped = False
        self.version = GRIPPER_VERSION
        self.peer: tuple[str, int] | None = None
        self._cycles = 0
        self._task: tuple[GripperRequest, int] | None = None
        self._targets: list[float] = []  # Remaining target widths [m].
        self._speed = FINGER_VELOCITY
        self._success_range = (
            0.0,
            MAX_WIDTH,
        )  # Range of widths in which the command succeeds [m].

    def put_object(self, width: float) -> None:
        """Put an object of a width [m] between the fingers; 0 removes it.

        Raises:
            ConfigurationError: If the object is too wide for the gripper.
        """
        if not 0.0 <= width <= MAX_WIDTH:
            raise ConfigurationError(f"width: got {width} m, allowed 0 to {MAX_WIDTH} m")
        self.object_width = width
        self.is_grasped = self.is_grasped and abs(width - self.width) < 1e-4

    def handle(self, command: int, counter: int, body: bytes, host: str) -> None:
        """Execute a request of the client and answer it; a motion is answered when it ends.

        Args:
            command: Number of the request type.
            counter: Number of the request, for the answer.
            body: Content of the request.
            host: Address of the client.
        """
        request = GripperRequest(command)
        if request is GripperRequest.CONNECT:
            version, port = CONNECT.unpack(body)
            accepted = version == self.version
            self.peer = (host, port) if accepted else None
            self._answer(command, counter, struct.pack("<HH", not accepted, self.version))
            return
        self._finish_motion(GripperStatus.ABORTED)
        if request is GripperRequest.STOP:
            self._answer(command, counter, _STATUS.pack(GripperStatus.SUCCESS))
            return
        self._task = (request, counter)
        self.is_grasped = False
        if request is GripperRequest.HOMING:
            self._start_motion([0.0, MAX_WIDTH], FINGER_VELOCITY, (MAX_WIDTH - 1e-4, MAX_WIDTH))
        elif request is GripperRequest.MOVE:
            width, speed = _MOVE.unpack(body)
            self._start_motion([width], speed, (width - 1e-4, width + 1e-4))
        else:
            width, inner, outer, speed, force = _GRASP.unpack(body)
            self.force = force
            if not 0.0 < force <= 2.0 * FINGER_FORCE:
                self._finish_motion(GripperStatus.FAIL)
                return
            self._start_motion([0.0], speed, (width - inner, width + outer))

    def _start_motion(
        self, target_widths: list[float], speed: float, success_range: tuple[float, float]
    ) -> None:
        if not (speed > 0.0 and all(0.0 <= stop <= MAX_WIDTH for stop in target_widths)):
            self._finish_motion(GripperStatus.FAIL)
            return
        self._targets, self._success_range = target_widths, success_range
        self._speed = min(speed, FINGER_VELOCITY)

    def disconnect(self) -> None:
        """Stop sending states to the client, and abort its motion without an answer."""
        self.peer, self._task = None, None
        self._targets = []

    def close(self) -> None:
        self._socket.close()

    def cycle(self) -> None:
        """Move the fingers for one period, and send a state when it is due."""
        if self._targets:
            self._move_fingers(self._targets[0])
        self._cycles += 1
        if self.peer is not None and self._cycles % STATE_CYCLES == 0:
            state = GRIPPER_STATE.pack(
                self._cycles, self.width, MAX_WIDTH, self.is_grasped, TEMPERATURE
            )
            try:
                self._socket.sendto(state, self.peer)
            # A client that disconnects closes its UDP socket first. The loss of the state is no
            # error.
            except OSError:
                return

    def _move_fingers(self, target_width: float) -> None:
        step = self._speed * PERIOD
        change = max(-step, min(step, target_width - self.width))
        width = self.width + change
        blocked = width <= self.object_width <= self.width and change < 0.0
        self.width = self.object_width if blocked else width
        if not blocked and self.width != target_width:
            return
        homing = self._task is not None and self._task[0] is GripperRequest.HOMING
        del self._targets[0]
        if self._targets and (homing or not blocked):
            return
        low, high = self._success_range
        grasp = self._task is not None and self._task[0] is GripperRequest.GRASP
        done = low <= self.width <= high
        self.is_grasped = grasp and done
        self._finish_motion(GripperStatus.SUCCESS if done else GripperStatus.UNSUCCESSFUL)

    def _finish_motion(self, status: GripperStatus) -> None:
        task, self._task, self._targets = self._task, None, []
        if task is not None:
            self._answer(task[0], task[1], _STATUS.pack(status))
