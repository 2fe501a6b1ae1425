# SPDX-License-Identifier: Apache-2.0
"""Simulated robot and gripper at one address, with their network ports and clock."""

from __future__ import annotations

import selectors
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multipanda_py.simulation.fci.cycles import MAX_PARTNER_WAIT, Clock
from multipanda_py.simulation.fci.gripper import GripperServer
from multipanda_py.simulation.fci.network import TcpPort, UdpLink, listen
from multipanda_py.simulation.fci.requests import handle
from multipanda_py.simulation.fci.robot import FciRobot
from multipanda_py.simulation.fci.wire import (
    CONNECT,
    GRIPPER_HEADER,
    GRIPPER_PORT,
    ROBOT_HEADER,
    ROBOT_PORT,
    ROBOT_VERSION,
    RobotRequest,
    command_from,
)
from multipanda_py.simulation.fci.world import Physics, RobotWorld

_FIRST_STATE_DELAY = 5_000_000  # Time from opening the control unit to its first state [ns].


@dataclass(frozen=True)
class Timing:
    """Timing of the states that a simulated robot sends.

    Attributes:
        lockstep: True to send a state as soon as the client has answered the previous one, False
            to send a state in each period.
        phase: Delay of the first state [ms].
        ppm: Rate error of the clock, positive if it is too slow [parts per million].
    """

    lockstep: bool = False
    phase: float = 0.0
    ppm: float = 0.0


class ControlUnit:
    """Simulated robot and gripper at one address, with their network ports and clock.

    Args:
        address: IPv4 address.
        selector: Selector that reports new data on all ports of the process.
        timing: Timing of the robot's states.
        world: Scene of the arm; None for a new scene at each start of the unit.
        arm_index: Index of the arm in the scene.

    Attributes:
        link: UDP connection of the robot.
        port: TCP port of the robot.
        version: Protocol version in the answer to Connect.
    """

    robot: FciRobot
    gripper: GripperServer
    link: UdpLink
    port: TcpPort

    def __init__(
        self,
        address: str,
        selector: selectors.BaseSelector,
        timing: Timing,
        world: RobotWorld | None = None,
        arm_index: int = 0,
    ) -> None:
        self.address, self._selector, self._timing = address, selector, timing
        self._world, self._arm_index = world, arm_index
        self._wake_at = 0
        self._open_ports()

    def _open_ports(self) -> None:
        robot = listen(self.address, ROBOT_PORT)
        try:
            gripper = listen(self.address, GRIPPER_PORT)
        except Exception:
            robot.close()
            raise
        selector = self._selector
        self.port = TcpPort(selector, robot, ROBOT_HEADER, self._on_request, self._on_client_gone)
        self.link = UdpLink(self.address)
        selector.register(self.link.socket, selectors.EVENT_READ, self._collect_commands)
        self.robot = FciRobot(self.port.send, Physics(self._world, self._arm_index))
        self._gripper_port = TcpPort(
            selector, gripper, GRIPPER_HEADER, self._on_gripper_request, self._on_gripper_gone
        )
        self.gripper = GripperServer(self.address, self._gripper_port.send)
        timing = self._timing
        self._clock = Clock(
            time.perf_counter_ns() + _FIRST_STATE_DELAY,
            lockstep=timing.lockstep, phase=timing.phase, ppm=timing.ppm,
        )  # fmt: skip
        self.version = ROBOT_VERSION
        self._command: np.void | None = None
        # True if the command for the newest state will not arrive, because a fault was injected.
        self._command_lost = False
        self._missed = False  # True if the last cycle had no command.
        self._sent_at = 0
        self._planned: list[tuple[int, Callable[[], object]]] = []
        self._running = True

    def close(self) -> None:
        """Close every port without notice to the client, as when switched off."""
        if not self._running:
            return
        self._running = False
        self.port.close()
        self._gripper_port.close()
        self._selector.unregister(self.link.socket)
        self.link.close()
        self.gripper.close()

    def reboot(self, duration: float) -> None:
        """Switch off, and on again after ``duration`` [s]; the robot loses its state."""
        self.close()
        self._wake_at = time.perf_counter_ns() + round(duration * 1e9)

    def plan(self, cycle: int, action: Callable[[], object]) -> None:
        """Schedule an action for a cycle of the running motion, or of the next one if none runs.

        Args:
            cycle: Cycle of the motion after which the action runs.
            action: Function to run.
        """
        self._planned.append((cycle, action))

    @property
    def running(self) -> bool:
        return self._running

    @property
    def wait_time(self) -> int:
        """Time for which coupled robots wait for the client of this one [ns]; 0: not at all."""
        motion = self.robot.motion
        started = motion is not None and motion.started and not motion.asynchronous
        if not (self._running and started) or self._missed or self._has_answer:
            return 0
        return max(0, self._sent_at + MAX_PARTNER_WAIT - time.perf_counter_ns())

    def advance(self, *, hold: bool = False) -> int:
        """Run a cycle if one is due.

        Args:
            hold: True to wait until the deadline of the cycle, even if the client's command has
                arrived.

        Returns:
            Maximum time to sleep afterwards [ns].
        """
        now = time.perf_counter_ns()
        if not self._running:
            if now < self._wake_at:
                return self._wake_at - now
            self._open_ports()
        self.link.flush(now)
        wait = self._wait(now, hold)
        if wait == 0:
            # Commands that are in the socket at the end of the wait are in time.
            self._collect_commands()
            self._cycle(now)
            now = time.perf_counter_ns()
            wait = self._wait(now, hold)
        delivery = self.link.next_delivery()
        if delivery is not None:
            if delivery <= now:
                self._collect_commands()
            wait = min(wait, max(0, delivery - now))
        return wait

    def _wait(self, now: int, hold: bool) -> int:
        answered = self._has_answer and not hold
        return self._clock.wait(now, waiting=self._waiting, answered=answered)

    @property
    def _has_answer(self) -> bool:
        # A command that an injected fault has lost counts as an answer.
        return self._command is not None or self._command_lost

    @property
    def _waiting(self) -> bool:
        motion = self.robot.motion
        return motion is not None and not motion.asynchronous

    def _cycle(self, now: int) -> None:
        answered = self._has_answer
        command, self._command, self._command_lost = self._command, None, False
        if self._planned and self.robot.motion is not None:
            self._run_planned(self.robot.cycles.in_motion)
        state = self.robot.cycle(command)
        self.gripper.cycle()
        motion = self.robot.motion
        self._sent_at = time.perf_counter_ns()
        arrives = self.link.send(state, self._sent_at)
        self._command_lost = not arrives and not self.link.dead
        self._missed = motion is not None and motion.started and not answered
        timing = self._clock.sent(
            now, waiting=self._waiting, answered=answered,
            started=motion is not None and motion.started,
        )  # fmt: skip
        if timing is not None:
            self.robot.cycles.lateness(*timing)

    def _run_planned(self, cycle: int) -> None:
        due_actions = [action for time, action in self._planned if time <= cycle]
        self._planned = [plan for plan in self._planned if plan[0] > cycle]
        for action in due_actions:
            action()

    def _collect_commands(self) -> None:
        now = time.perf_counter_ns()
        datagrams, lost = self.link.receive(now)
        motion = self.robot.motion
        self._command_lost |= lost > 0
        for arrived, datagram in datagrams:
            command = command_from(datagram)
            if command is None or motion is None:
                continue
            # Valid commands answer the newest state, end the motion, or are asynchronous.
            if command["message_id"] == self.robot.message_id:
                self.robot.cycles.timed(self._sent_at, arrived)
                self._command = command
            elif motion.asynchronous or command["torque_finished"] or command["motion_finished"]:
                self._command = command
            else:
                self.robot.cycles.stale()

    def _on_request(self, command: int, counter: int, body: bytes) -> None:
        try:
            request = RobotRequest(command)
        except ValueError:
            self.port.hang_up()
            return
        if request is RobotRequest.CONNECT:
            self._connect(counter, body)
            return
        if request is RobotRequest.MOVE:
            self._command = None  # A command of the previous motion must not act on the new one.
        answer = handle(self.robot, request, counter, body)
        if answer is not None:
            self.port.send(request, counter, answer)

    def _connect(self, counter: int, body: bytes) -> None:
        if len(body) != CONNECT.size or self.port.peer is None:
            self.port.hang_up()
            return
        version, port = CONNECT.unpack(body)
        accepted = version == self.version
        if accepted:
            self.link.peer = (self.port.peer, port)
        self.port.send(
            RobotRequest.CONNECT, counter, struct.pack("<BH", not accepted, self.version)
        )

    def _on_client_gone(self) -> None:
        self.link.disconnect()
        if self.robot.motion is not None:
            # Assumed: a real robot's reaction is not documented.
            self.robot.fault("communication_constraints_violation")

    def _on_gripper_request(self, command: int, counter: int, body: bytes) -> None:
        try:
            self.gripper.handle(command, counter, body, self._gripper_port.peer or "")
        except (ValueError, struct.error):
            self._gripper_port.hang_up()

    def _on_gripper_gone(self) -> None:
        self.gripper.disconnect()
