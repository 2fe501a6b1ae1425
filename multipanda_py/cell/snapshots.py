# SPDX-License-Identifier: Apache-2.0
"""Snapshots of an arm from rows of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from multipanda_py.loop.events import Event
from multipanda_py.loop.row import ARM_FIELDS, columns
from multipanda_py.state import INTERFACES, ArmSnapshot, Vector

_SHOWN = {field.name for field in fields(ArmSnapshot)}


class Snapshots:
    """Find one arm in rows that are seen as numbers.

    Every target is checked against a snapshot, so that fields are found by place: by name each
    takes five times as long.

    Args:
        arm: Name of the arm.
        index: Its place in the cell.
        joints: How many it has.
        instances: Names of the cell's controllet instances, by index.
        row: Of the loop's records.

    Thread: any.
    """

    def __init__(
        self, arm: str, index: int, joints: int, instances: Sequence[str], row: np.dtype[np.void]
    ) -> None:
        self._arm, self._instances = arm, instances
        record = np.empty(0, row)["arms"].dtype
        start = columns(row, "arms").start + index * record.itemsize // 8
        self._time = columns(row, "time").start
        self._owner, self._fault, self._interface = (
            start + columns(record, name).start for name in ("owner", "fault", "interface")
        )
        self._vectors: list[tuple[str, slice]] = []
        self._matrices: list[tuple[str, slice, int]] = []
        for field in ARM_FIELDS:
            if field.name not in _SHOWN or not field.shape:
                continue
            place = columns(record, field.name)
            size = joints if field.shape == ("joints",) else place.stop - place.start
            place = slice(start + place.start, start + place.start + size)
            if len(field.shape) == 1:
                self._vectors.append((field.name, place))
            else:
                self._matrices.append((field.name, place, int(field.shape[0])))

    def of(self, row: Vector) -> ArmSnapshot:
        """Return the arm's snapshot; its arrays are views of the row, (n,)."""
        words = row.view(np.int64)
        fault = int(words[self._fault])
        snapshot = object.__new__(ArmSnapshot)  # its own way sets frozen fields one by one
        fields = snapshot.__dict__
        fields["name"], fields["time"] = self._arm, float(row[self._time])
        fields["owner"] = self._instances[int(words[self._owner])]
        fields["fault"] = Event(fault).name.lower() if fault else ""
        fields["interface"] = INTERFACES[int(words[self._interface])]
        for name, place in self._vectors:
            fields[name] = row[place]
        for name, place, rows in self._matrices:
            fields[name] = row[place].reshape(rows, -1)
        return snapshot
