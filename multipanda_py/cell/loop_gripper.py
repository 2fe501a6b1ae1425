# SPDX-License-Identifier: Apache-2.0
"""The gripper of a simulated arm, which moves with its world."""

from __future__ import annotations

import time

import numpy as np

from multipanda_py.cell.arm_request import STILL, given_up
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.gripper_record import Action, Outcome
from multipanda_py.grippers.gripper import (
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
)
from multipanda_py.robots.parallel_gripper import ParallelGripper


class LoopGripper(Gripper):
    """A gripper that the loop's backend moves: a simulated one.

    A command that a silent loop has not taken is withdrawn, a stop too, and its motion ends.

    Args:
        arm: Its arm.
        index: Of the arm in the cell.
        connection: To the loop.
        reader: Of the cell's states.
        description: What the gripper can do.
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
        """Return what the newest cycle has seen."""
        _, _, held, width = self._reader.gripper_answer(self.arm)
        motion = self._motion
        is_moving = not (motion is None or motion.done)
        return GripperState(width, self.description.max_width, held, is_moving)

    def start(self, command: GripperCommand) -> GripperMotion:
        """Hand a command to the loop."""
        connection = self._connection
        with connection.lock:
            self.end_motion(f"ended by {command}")
            slot = connection.mailbox.grippers[self._index]
            number = connection.post(slot, np.array(command.record))
            since = time.monotonic()
            self._motion = GripperMotion(
                command, lambda: self._look(command, number, since), connection.wait
            )
            return self._motion

    def end_motion(self, why: str) -> None:
        """End the motion that is under way, for those that wait for it."""
        if self._motion is not None:
            text = f"{self._motion.command}: {why}"
            self._motion.end(GripperResult(Outcome.ABORTED, self.state().width, text))

    def _look(self, command: GripperCommand, number: int, since: float) -> GripperResult | None:
        begun, outcome, held, width = self._reader.gripper_answer(self.arm)
        if begun != number or outcome is Outcome.MOVING:
            is_late = time.monotonic() - since > STILL and self._connection.silence() > STILL
            return self._give_up(command, number, width) if is_late else None
        text = f"{command}: {outcome.name.lower()} at {width:.4f} m"
        if command.action is Action.GRASP:
            text += ", an object is held" if held else ", nothing is held"
        return GripperResult(outcome, width, text)

    def _give_up(self, command: GripperCommand, number: int, width: float) -> GripperResult:
        """End what a silent loop does not answer: whoever asked is not kept waiting."""
        connection = self._connection
        slot = connection.mailbox.grippers[self._index]
        done = given_up(connection.withdraw(slot, number, "gripper"))
        why = self._reader.silence_reason() or "the loop has stood still"
        text = f"{command}: {why}; {done}"
        return GripperResult(Outcome.FAILED, width, text)
