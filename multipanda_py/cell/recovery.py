# SPDX-License-Identifier: Apache-2.0
"""Recoveries: latched faults that a cell's user clears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader


@dataclass(frozen=True)
class RecoveryRequest:
    """A recovery that the loop has been asked for.

    Attributes:
        arms: Arms that had a fault.
        number: Of the record.
    """

    arms: tuple[str, ...]
    number: int


class Recovery:
    """Have the loop clear the faults of arms.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear latched faults; the arms hold the posture of now, and nothing else starts.

        Returns:
            Names of the arms that had a fault.
        """
        return self.ask(arms).arms

    def ask(self, arms: Sequence[str] | None = None) -> RecoveryRequest:
        """Do as :meth:`recover`; what is returned can be withdrawn."""
        chosen = self._names.arms if arms is None else tuple(arms)
        faulted = tuple(arm for arm in chosen if self._reader.state(arm).fault)
        number = 0
        if faulted:
            flags = np.array([float(arm in faulted) for arm in self._names.arms])
            number = self._connection.post(self._connection.mailbox.recover, flags)
        return RecoveryRequest(faulted, number)

    def withdraw(self, request: RecoveryRequest) -> bool:
        """Give a recovery up; return whether it is certain that it will not happen."""
        if not request.arms:
            return True
        connection = self._connection
        return connection.withdraw(connection.mailbox.recover, request.number, "recovery")
