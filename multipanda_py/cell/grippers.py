# SPDX-License-Identifier: Apache-2.0
"""The grippers of a cell: one handle per arm, whatever moves the arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.loop_gripper import LoopGripper
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import find_backend
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.gripper_record import Action
from multipanda_py.grippers.gripper import Gripper
from multipanda_py.robots.parallel_gripper import ParallelGripper


class Grippers:
    """Hand out grippers, and keep what belongs to those that the loop does not move.

    Args:
        names: Of the cell's arms.
        connection: To its loop.
        reader: Of its states.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._grippers: dict[str, Gripper] = {}

    def of(self, arm: str) -> Gripper:
        """Return the handle of an arm's gripper, always the same one.

        Raises:
            UnknownName: If there is no such arm.
            ConfigurationError: If the arm has no hand.
            LoopError: If the gripper is not the loop's, and the cell is not started.
        """
        name = self._names.arms[self._names.arm_index(arm)]
        description = self._names.descriptions[name].gripper
        if description is None:
            raise ConfigurationError(
                f"arm {arm} has no gripper: its cell file says hand: false (arms.{arm}.hand)"
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
        gripper.silence = self._reader.silence_reason
        return gripper

    def connect(self) -> None:
        """Make all grippers; whether those of real arms connect, their state says."""
        for arm, config in self._names.config.arms.items():
            if config.hand:
                self.of(arm)

    def end_motions(self, why: str) -> None:
        """End what simulated grippers are doing, for those that wait for it."""
        for gripper in self._grippers.values():
            if isinstance(gripper, LoopGripper):
                gripper.end_motion(why)

    def close(self) -> None:
        """End what belongs to the grippers; safe to call twice."""
        for gripper in self._grippers.values():
            gripper.close()
        self._grippers.clear()
