# SPDX-License-Identifier: Apache-2.0
"""Snapshots of an arm from rows of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from multipanda_py.loop.events import Event
from multipanda_py.loop.row import ARM_FIELDS, columns
from multipanda_py.state import INTERFACES, ArmSnapshot, Vector

_SHOWN = {field.name for field in fields(ArmSnapshot)}


class _OfRow(ArmSnapshot):
    """A snapshot that finds in its row what it is asked for: a check asks for little."""

    _finder: Snapshots
    _row: Vector

    @cached_property
    def interface(self) -> str:  # the class has one, too: a default
        """What it is commanded."""
        return str(self._finder.find("interface", self._row))

    def __getattr__(self, name: str) -> Any:
        """Find something else when it is asked for first."""
        if name not in _SHOWN:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = vars(self)[name] = self._finder.find(name, self._row)
        return found


class Snapshots:
    """Find one arm in rows that are seen as numbers.

    Every target is checked against a snapshot, so that fields are found by place, which takes a
    fifth of the time, and only those that are looked at.

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
        self._words = {
            name: start + columns(record, name).start for name in ("owner", "fault", "interface")
        }
        self._vectors: dict[str, slice] = {}
        self._matrices: dict[str, tuple[slice, int]] = {}
        for field in ARM_FIELDS:
            if field.name not in _SHOWN or not field.shape:
                continue
            place = columns(record, field.name)
            size = joints if field.shape == ("joints",) else place.stop - place.start
            place = slice(start + place.start, start + place.start + size)
            if len(field.shape) == 1:
                self._vectors[field.name] = place
            else:
                self._matrices[field.name] = place, int(field.shape[0])

    def of(self, row: Vector) -> ArmSnapshot:
        """Return the arm's snapshot; its arrays are views of the row, (n,)."""
        snapshot = object.__new__(_OfRow)
        vars(snapshot).update(_finder=self, _row=row, name=self._arm)
        return snapshot

    def find(self, name: str, row: Vector) -> Any:
        """Return a field of a snapshot."""
        if name in self._vectors:
            return row[self._vectors[name]]
        if name in self._matrices:
            place, rows = self._matrices[name]
            return row[place].reshape(rows, -1)
        if name == "time":
            return float(row[self._time])
        word = int(row.view(np.int64)[self._words[name]])
        if name == "fault":
            return Event(word).name.lower() if word else ""
        return (self._instances if name == "owner" else INTERFACES)[word]
