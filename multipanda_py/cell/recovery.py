# SPDX-License-Identifier: Apache-2.0
"""Recoveries: latched faults that a cell's user clears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
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
        counts: Where withdrawals go.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts

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
        done = self._connection.withdraw(self._connection.mailbox.recover, request.number)
        self._counts.withdrawn["recovery"] += done
        return done
