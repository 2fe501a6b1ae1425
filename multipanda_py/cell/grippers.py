# SPDX-License-Identifier: Apache-2.0
"""Grippers of a cell: one handle per arm, for simulated and real grippers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.cell.arm_request import LOOP_TIMEOUT, describe_withdrawal
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import find_backend
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.gripper import (
    Action,
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
    Outcome,
)
from multipanda_py.robots.parallel_gripper import ParallelGripper


class LoopGripper(Gripper):
    """Gripper that is moved by the backend in the loop, for example a simulated one.

    If the loop does not run, commands that it has not received are withdrawn, and their motions
    end. This includes stop commands.

    Args:
        arm: Name of the arm.
        index: Index of the arm in the cell.
        connection: Connection to the control loop.
        reader: State reader of the cell.
        description: Properties of the gripper.
    """

    def __init__(
        self,
        arm: str,
        index: int,
        connection: Connection,
        reader: StateReader,
        description: ParallelGripper,
    ) -> None:
        super().__init__(arm, description)
        self._index, self._connection, self._reader = index, connection, reader
        self._motion: GripperMotion | None = None

    def state(self) -> GripperState:
        """Return the state in the newest cycle."""
        _, _, held, width = self._reader.gripper_answer(self.arm)
        motion = self._motion
        is_moving = not (motion is None or motion.done)
        return GripperState(width, self.description.max_width, held, is_moving)

    def start(self, command: GripperCommand) -> GripperMotion:
        """Abort the running motion and send a command to the loop."""
        connection = self._connection
        with connection.lock:
            self.end_motion(f"ended by {command}")
            slot = connection.mailbox.grippers[self._index]
            number = connection.post(slot, np.array(command.record))
            since = time.monotonic()
            self._motion = GripperMotion(
                command, lambda: self._poll(command, number, since), connection.wait
            )
            return self._motion

    def end_motion(self, reason: str) -> None:
        """Abort the running motion, so that callers stop waiting for it."""
        if self._motion is not None:
            text = f"{self._motion.command}: {reason}"
            self._motion.end(GripperResult(Outcome.ABORTED, self.state().width, text))

    def _poll(self, command: GripperCommand, number: int, since: float) -> GripperResult | None:
        started, outcome, held, width = self._reader.gripper_answer(self.arm)
        if started != number or outcome is Outcome.MOVING:
            is_late = (
                time.monotonic() - since > LOOP_TIMEOUT
                and self._connection.time_since_cycle() > LOOP_TIMEOUT
            )
            return self._give_up(command, number, width) if is_late else None
        text = f"{command}: {outcome.name.lower()} at {width:.4f} m"
        if command.action is Action.GRASP:
            text += ", an object is held" if held else ", nothing is held"
        return GripperResult(outcome, width, text)

    def _give_up(self, command: GripperCommand, number: int, width: float) -> GripperResult:
        """Withdraw a command that the stopped loop does not answer, and return a failure."""
        connection = self._connection
        slot = connection.mailbox.grippers[self._index]
        done = describe_withdrawal(connection.withdraw(slot, number, "gripper"))
        reason = self._reader.stall_reason() or "the loop does not run"
        text = f"{command}: {reason}; {done}"
        return GripperResult(Outcome.FAILED, width, text)


class Grippers:
    """Provide one handle per gripper and close those that do not belong to the loop.

    Args:
        names: Names of arms and controllets of the cell.
        connection: Connection to the control loop.
        reader: State reader of the cell.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._grippers: dict[str, Gripper] = {}

    def gripper(self, arm: str) -> Gripper:
        """Return the handle of the gripper of an arm, always the same object.

        Raises:
            UnknownName: If there is no such arm.
            ConfigurationError: If the arm has no gripper.
            LoopError: If the gripper is not moved by the loop, and the cell is not started.
        """
        name = self._names.arms[self._names.arm_index(arm)]
        description = self._names.descriptions[name].gripper
        if description is None:
            raise ConfigurationError(
                f"arm {arm} has no gripper: the cell file has gripper: false (arms.{arm}.gripper)"
            )
        with self._connection.lock:
            if arm not in self._grippers:
                self._grippers[arm] = self._make(arm, description)
            return self._grippers[arm]

    def _make(self, arm: str, description: ParallelGripper) -> Gripper:
        config, connection = self._names.arm_config(arm), self._connection

        def publish(width: float, is_grasped: bool) -> None:
            record = np.array([Action.MEASURED, width, is_grasped, 0.0, 0.0, 0.0])
            connection.post(connection.mailbox.grippers[self._names.arm_index(arm)], record)

        backend: type[Backend[Any]] = find_backend(config.backend)
        gripper = backend.make_gripper(arm, config, publish, connection.check)
        if gripper is None:
            index = self._names.arm_index(arm)
            gripper = LoopGripper(arm, index, connection, self._reader, description)
        gripper.silence = self._reader.stall_reason
        return gripper

    def connect(self) -> None:
        """Create the handles of all grippers. Their state shows if real grippers are connected."""
        for arm, config in self._names.config.arms.items():
            if config.gripper:
                self.gripper(arm)

    def end_motions(self, reason: str) -> None:
        """Abort the running motions of simulated grippers, so that no caller waits for them."""
        for gripper in self._grippers.values():
            if isinstance(gripper, LoopGripper):
                gripper.end_motion(reason)

    def close(self) -> None:
        """Close all grippers. It is safe to call this twice."""
        for gripper in self._grippers.values():
            gripper.close()
        self._grippers.clear()
