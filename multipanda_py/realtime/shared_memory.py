# SPDX-License-Identifier: Apache-2.0
"""Shared memory between a cell's owner and its loop.

Every record has one writer. One that may be overwritten while it is read has a slot, so
that no process ever waits for another. Rows and events go to
rings that are long enough for a reader to copy what it needs before the writer
comes round. Ordering relies on stores and loads of aligned words staying in program
order, as on x86-64; the memory belongs to a file without a name, so that no crash
can leave it behind.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_things
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.parameters import record_width
from multipanda_py.realtime.cycle_record import row_dtype
from multipanda_py.realtime.events import EVENT, EVENTS, Event, EventRing, LoopEvent
from multipanda_py.realtime.record_ring import ROWS, RowPlace, RowRing
from multipanda_py.robots.gripper import RECORD as GRIPPER_RECORD
from multipanda_py.state import Vector

HEAD = 3
"""Words in front of a record: its counter, the number taken, the number up to which it is void."""
SETTLE = 1e-3
"""Far longer than a store takes to reach another core [s]."""
_TRIES = 100


class Slot:
    """One record with a sequence counter: written by one side, read by the other.

    A request that has not been taken yet can be withdrawn: the writer says up to which number
    records are void, the reader says which one it took, before it looks at what is void.

    Attributes:
        counter: Sequence counter, one word, odd during a write.
        seen: Number of the record that was taken last.
    """

    __slots__ = ("_data", "_scratch", "_taken", "_void", "counter", "seen")

    def __init__(self, words: memoryview, floats: Vector, start: int, width: int) -> None:
        self.counter = words[start : start + 1]
        self._taken = words[start + 1 : start + 2]
        self._void = words[start + 2 : start + 3]
        self._data = floats[start + HEAD : start + HEAD + width]
        self._scratch = np.zeros(width)
        self.seen = 0

    def write(self, values: Vector) -> int:
        """Publish ``values`` and return the record's number. Thread: the one writer."""
        counter = self.counter
        counter[0] += 1
        self._data[:] = values
        counter[0] += 1
        return int(counter[0])

    def take(self) -> Vector | None:
        """Return the newest record not taken yet, else None. Never waits. Thread: reader."""
        number = self.counter[0]
        if number == self.seen or number & 1:
            return None
        self._scratch[:] = self._data
        if self.counter[0] != number:
            return None
        self.seen = number
        self._taken[0] = number  # before the look at what is void: see withdraw()
        return None if self._void[0] >= number else self._scratch

    @property
    def written(self) -> int:
        """Number of the newest record; one more while it is being replaced."""
        return int(self.counter[0])

    @property
    def taken(self) -> int:
        """Number of the last record that the reader has taken, void or not."""
        return int(self._taken[0])

    def withdraw(self, number: int) -> bool:
        """Make records up to ``number`` void; call it once for a record. Thread: the one writer.

        Returns:
            Whether the reader has not taken it and never will: then it cannot happen any more.
        """
        self._void[0] = max(self._void[0], number)
        # Long enough for both sides' stores to be seen: a reader that missed this one has said
        # before that it took the record.
        time.sleep(SETTLE)
        return int(self._taken[0]) < number

    def newest(self) -> Vector | None:
        """Return a copy of the newest record, None if there is none yet.

        Thread: reader that may try again; leaves the record to :meth:`take`.
        """
        for _ in range(_TRIES):
            number = self.counter[0]
            values = self._data.copy()
            if number and not number & 1 and self.counter[0] == number:
                return values
        return None

    def skip(self) -> None:
        """Count what is there as taken: it was meant for an earlier activation."""
        number = self.counter[0]
        self.seen = number + (number & 1)


ANSWER_HEAD = 2
"""Floats before what is in force, in an answer to settings or a tare: number of the record,
whether it was done."""
HELD = 2 + 7
"""Floats of a request to hold: number of the object or 0, whether placed, its pose in the tool's
frame (position, w x y z)."""
PLACED = 1 + 7 + 6
"""Floats of a request to put a thing elsewhere: its number among the movable ones, position and
quaternion x y z w in the world, linear velocity and angular velocity in its own axes."""
ENTRY = 1 + PLACED
"""Floats of a request to bring a thing into the scene, out of it, or elsewhere: a :class:`Change`,
then as above."""
ENTRY_ANSWER = 4
"""Floats of the answer: number of the request, an :class:`Entry`, what is in the way (its place
in :func:`.surroundings`), and how deep [m]."""
ANY_EPOCH = -1
"""Of a switch that fits any active set: a stop."""
REASON = 24
"""Number of floats in the record of a switch that hold its reason, as UTF-8."""
KEEP, RESTART = 1, 2
"""Of a switch, per instance: active, and active with its target seeded anew; 0 is inactive."""


def reason_record(text: str) -> Vector:
    """Return the reason of a switch as the end of its record, (REASON,).

    A longer text keeps its beginning and its end, which names the client that requested it.
    """
    data, size = text.encode(), 8 * REASON
    if len(data) > size:
        half = size // 2 - 2
        data = data[:half] + b"..." + data[-half:]
    return np.frombuffer(data.ljust(size, b"\0"), np.float64)


def reason_of(request: Vector) -> str:
    """Return the reason of a switch from its record."""
    return bytes(request[-REASON:].tobytes()).rstrip(b"\0").decode("utf-8", "replace")


class Word(IntEnum):
    """Single words of the mailbox. The owner writes the first eight, the loop the others."""

    CLIENT_HEARTBEAT = 0
    MAIL = 1
    SHUTDOWN = 2
    TRACE = 3
    TARGETS = 4
    LAST_ROW = 5
    LOOP_HEARTBEAT = 8
    ROWS = 9
    EVENTS = 10
    EPOCH = 11
    SWITCH_ACK = 12
    SWITCH_STATUS = 13
    SWITCH_NS = 14
    SHOWN = 15


class SwitchStatus(IntEnum):
    """The loop's answer to a switch request."""

    DONE = 1
    OUTDATED = 2
    FAILED = 3


class Change(IntEnum):
    """What is asked for of a thing."""

    REMOVE = 0
    SPAWN = 1
    MOVE = 2


class Entry(IntEnum):
    """The loop's answer to a thing that is to come, go, or be elsewhere."""

    DONE = 0
    PRESENT = 1
    ABSENT = 2
    HELD = 3
    INSIDE = 4


class Mailbox:
    """All records of one cell.

    Args:
        config: The cell.
        specs: Its instances; both sides derive the same layout from them.
        fd: File descriptor of a mailbox that the owner made, or None to make one.
        read_only: Map it for reading along; writing to it raises.

    Raises:
        LoopError: If the mailbox behind ``fd`` is not that of this cell.
    """

    def __init__(
        self,
        config: CellConfig,
        specs: Sequence[InstanceSpec],
        fd: int | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self._arm_names = tuple(config.arms)
        self._names = tuple(spec.name for spec in specs)
        movable = len(movable_things(config))
        sizes = [arm.robot.n_joints for arm in config.arms.values()]
        joints = max(sizes)
        terms = 1 + max(len(spec.features) for spec in specs)
        sprung = joints if any(arm.actuators for arm in config.arms.values()) else 0
        dimensions = (len(config.arms), movable, len(specs), joints, terms, sprung)
        self.row_dtype = row_dtype(*dimensions)
        widths = [2 + len(specs) + REASON, len(config.arms)] + [GRIPPER_RECORD] * len(config.arms)
        for arm in config.arms.values():
            settings = record_width(type(arm.settings))
            widths += [settings, ANSWER_HEAD + settings]
        for size in sizes:
            widths += [1, ANSWER_HEAD + size]
        widths += [HELD] * len(config.arms)
        widths += [PLACED, ENTRY, ENTRY_ANSWER] * movable
        widths += [spec.parameter_width for spec in specs]
        for spec in specs:
            for channel in spec.channel_table.values():
                places = channel.places(len(spec.arms))
                widths += [channel.size(n) for n in spec.joints[:places]]
        n_words = 16 + 2 * len(specs) + sum(HEAD + width for width in widths)
        events_at = -(-8 * n_words // 64) * 64
        rows_at = events_at + EVENTS * EVENT.itemsize
        size = rows_at + ROWS * self.row_dtype.itemsize
        self.fd = os.memfd_create("multipanda", os.MFD_CLOEXEC) if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, size)
        elif (found := os.fstat(fd).st_size) != size:
            raise LoopError(
                f"shared memory of {found} bytes is not that of cell {config.cell.name!r}, which "
                f"has {size}: the loop runs another cell file"
            )
        access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
        self._map = mmap.mmap(self.fd, size, access=access)
        self.words = memoryview(self._map)[: 8 * n_words].cast("q")
        self.active = self.words[16 : 16 + len(specs)]
        # How often each law has begun, from the measured state.
        self.beginnings = self.words[16 + len(specs) : 16 + 2 * len(specs)]
        count = self.words[Word.EVENTS : Word.EVENTS + 1]
        self.events = EventRing(self._map, events_at, count, self._arm_names, self._names)
        count = self.words[Word.ROWS : Word.ROWS + 1]
        self.ring = RowRing(self._map, rows_at, self.row_dtype, count)
        self.row_place = RowPlace(
            size, rows_at, 8 * Word.ROWS, events_at, 8 * Word.EVENTS, dimensions
        )
        floats = np.frombuffer(self._map, np.float64, n_words)
        start = 16 + 2 * len(specs)
        slots = []
        for width in widths:
            slots.append(Slot(self.words, floats, start, width))
            start += HEAD + width
        supply = iter(slots)
        self.switch, self.recover = next(supply), next(supply)
        self.grippers = [next(supply) for _ in config.arms]
        pairs = [(next(supply), next(supply)) for _ in config.arms]
        self.settings, self.settings_answers = zip(*pairs)
        pairs = [(next(supply), next(supply)) for _ in config.arms]
        self.tares, self.tare_answers = zip(*pairs)
        self.holds = [next(supply) for _ in config.arms]
        things = [(next(supply), next(supply), next(supply)) for _ in range(movable)]
        self.placed = [slots[0] for slots in things]
        self.entries = [slots[1] for slots in things]
        self.entry_answers = [slots[2] for slots in things]
        self.parameters = [next(supply) for _ in specs]
        self.targets: list[dict[str, list[Slot]]] = [
            {
                name: [next(supply) for _ in range(channel.places(len(spec.arms)))]
                for name, channel in spec.channel_table.items()
            }
            for spec in specs
        ]

    def ring_bell(self) -> None:
        """Tell the loop that some record is new. Thread: owner."""
        self.words[Word.MAIL] += 1

    def ring_for_targets(self) -> None:
        """Tell the loop that targets are new, and nothing else is. Thread: owner."""
        self.words[Word.TARGETS] += 1

    def report(self, event: Event, time_ns: int, arm: int, controllet: int, text: str) -> None:
        """Append an event, in one line. Thread: control; only when something went wrong."""
        self.events.append(event, time_ns, arm, controllet, text)

    @property
    def cycles(self) -> int:
        """How many cycles there were: as many as rows, without those that only show things."""
        return int(self.words[Word.ROWS] - self.words[Word.SHOWN])

    @property
    def is_paused(self) -> bool:
        """Whether the owner wants no further cycle for now, and there is none."""
        return 0 < self.words[Word.LAST_ROW] <= self.cycles

    @property
    def event_count(self) -> int:
        """Number of events so far."""
        return self.events.count

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and those after the first ``count``."""
        return self.events.since(count)
