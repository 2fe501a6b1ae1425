# SPDX-License-Identifier: Apache-2.0
"""The grippers of a cell: one handle per arm, whatever moves the arm."""

from __future__ import annotations

import numpy as np

from multipanda_py.cell.tare import CellTare
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, TargetRejected
from multipanda_py.grippers.gripper import (
    Action,
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
    Outcome,
)
from multipanda_py.loop.mailbox import ROWS, Word
from multipanda_py.state import Vector

REAL = "franka"
"""Backend whose arms have a hand that the loop does not move."""


class CellGrippers(CellTare):
    """Hand out grippers, and keep the processes of the real ones."""

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self._grippers: dict[str, Gripper] = {}

    def gripper(self, arm: str) -> Gripper:
        """Return the handle of an arm's gripper, always the same one.

        Raises:
            UnknownName: If there is no such arm.
            ConfigurationError: If the arm has no hand.
            LoopError: If the arm is real and the cell is not started.
        """
        arm_config = self.config.arms[self._arm(arm)]
        if not arm_config.hand:
            raise ConfigurationError(
                f"arm {arm} has no gripper: its cell file says hand: false (arms.{arm}.hand)"
            )
        with self._lock:
            if arm not in self._grippers:
                self._grippers[arm] = self._make_gripper(arm, arm_config.backend)
            return self._grippers[arm]

    def _make_gripper(self, arm: str, backend: str) -> Gripper:
        if backend != REAL:
            return LoopGripper(self, arm)
        self.check()
        from multipanda_py.franka.gripper import FrankaGripper

        def publish(width: float, is_grasped: bool) -> None:
            record = np.array([Action.MEASURED, width, is_grasped, 0.0, 0.0, 0.0])
            self.post_gripper(arm, record)

        return FrankaGripper(arm, self.config.arms[arm].robot_ip, publish, self.check)

    def _connect_grippers(self) -> None:
        """Start the processes of real grippers; whether they connect, their state says."""
        for arm, arm_config in self.config.arms.items():
            if arm_config.hand and arm_config.backend == REAL:
                self.gripper(arm)

    def _close_grippers(self) -> None:
        for gripper in self._grippers.values():
            gripper.close()
        self._grippers.clear()

    def post_gripper(self, arm: str, record: Vector) -> int:
        """Hand a record to what moves the gripper in the loop; return its number."""
        with self._lock:
            box = self._box()
            number = box.grippers[self._arm_index[arm]].write(record)
            box.ring_bell()
        return number

    def gripper_answer(self, arm: str) -> tuple[int, Outcome, bool, float]:
        """Return the loop's newest word on a gripper.

        Returns:
            Number of the last command it has begun, its outcome, whether an object is held,
            and the width [m].
        """
        box, index = self._box(), self._arm_index[arm]
        if not box.words[Word.ROWS]:
            self._newest()
        record = box.rows["arms"][(box.words[Word.ROWS] - 1) % ROWS, index]
        number, outcome, held = record["gripper"].tolist()
        return number, Outcome(outcome), bool(held), max(0.0, float(record["fingers"].sum()))


class LoopGripper(Gripper):
    """A gripper that the loop's backend moves: a simulated one.

    Args:
        cell: Its cell.
        arm: Its arm.
    """

    def __init__(self, cell: CellGrippers, arm: str) -> None:
        super().__init__(arm)
        self._cell = cell
        self._motion: GripperMotion | None = None

    def state(self) -> GripperState:
        """Return what the newest cycle has seen."""
        _, _, held, width = self._cell.gripper_answer(self.arm)
        motion = self._motion
        return GripperState(width, is_grasped=held, is_moving=not (motion is None or motion.done))

    def start(self, command: GripperCommand) -> GripperMotion:
        """Hand a command to the loop."""
        cell = self._cell
        reason = cell.silence_reason()
        if reason and command.action is not Action.STOP:
            raise TargetRejected(f"{self.arm} gripper: {reason}")
        with cell._lock:
            if self._motion is not None:
                width = self.state().width
                text = f"{self._motion.command}: ended by {command}"
                self._motion.end(GripperResult(Outcome.ABORTED, width, text))
            number = cell.post_gripper(self.arm, np.array(command.record))
            self._motion = GripperMotion(command, lambda: self._look(command, number), cell.wait)
            return self._motion

    def _look(self, command: GripperCommand, number: int) -> GripperResult | None:
        begun, outcome, held, width = self._cell.gripper_answer(self.arm)
        if begun != number or outcome is Outcome.MOVING:
            return None
        text = f"{command}: {outcome.name.lower()} at {width:.4f} m"
        if command.action is Action.GRASP:
            text += ", an object is held" if held else ", nothing is held"
        return GripperResult(outcome, width, text)
