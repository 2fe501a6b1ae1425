# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controllets of a running cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.exceptions import MultipandaError, ParameterRejected


class ParameterWriter:
    """Check parameters, hand them to the loop, and know which are in force.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals go.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._values = [spec.initial_values() for spec in names.specs]

    def values(self, name: str) -> dict[str, Any]:
        """Return all parameters of an instance by name."""
        return dict(self._values[self._names.spec(name).index])

    def change(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of an instance, all together between two cycles.

        Raises:
            ParameterRejected: With every fault; nothing has changed.
        """
        spec = self._names.spec(name)
        try:
            accepted = spec.checked(values)
            if reason := self._reader.silence_reason():
                raise ParameterRejected(f"{name}: {reason}")
        except MultipandaError:
            self._counts.rejected["parameter"] += 1
            raise
        with self._connection.lock:
            changed = self._values[spec.index] | accepted
            if spec.parameter_width:
                slot = self._connection.mailbox.parameters[spec.index]
                self._connection.post(slot, spec.encode(changed))
            self._values[spec.index] = changed
