# SPDX-License-Identifier: Apache-2.0
"""Shared memory between the process that owns a cell and its control loop.

Every record has one writing process. A record that may be overwritten during a read has a sequence
lock (:class:`SeqlockBuffer`), so that no process ever waits for another. Cycle records and events
go to ring buffers. All readers rely on aligned loads and stores that stay in program order, as on
x86-64. The memory is an anonymous file, so that a crash leaves nothing behind.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_objects
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.parameters import record_width
from multipanda_py.realtime.cycle_record import CAPACITY, RecordLayout, RecordRing, record_dtype
from multipanda_py.realtime.events import EVENT_CAPACITY, EVENT_DTYPE, Event, EventRing, LoopEvent
from multipanda_py.robots.gripper import RECORD_SIZE as GRIPPER_RECORD
from multipanda_py.state import Vector

HEADER_WORDS = 3
"""Number of words before a record: its sequence counter, the number of the record that the reader
took last, and the number up to which the writer has withdrawn records."""
STORE_TIME = 1e-3
"""Time after which a store to memory is certainly visible to other cores [s]."""
_TRIES = 100  # Maximum number of attempts to read a record that is being written.


class SeqlockBuffer:
    """Record with a sequence counter (seqlock), written by one process and read by another.

    The writer can withdraw a record that the reader has not taken yet.

    Args:
        words: Shared memory as 64-bit integers.
        floats: Same memory as 64-bit floats.
        start: Index of the first word of the buffer: three counters, then the numbers of the
            record.
        width: Number of floats of the record.

    Attributes:
        counter: Sequence counter, one word, odd during a write.
        last_read: Number of the record that :meth:`pop` has read last in this process.
    """

    __slots__ = ("_data", "_scratch", "_taken", "_void", "counter", "last_read")

    def __init__(self, words: memoryview, floats: Vector, start: int, width: int) -> None:
        self.counter = words[start : start + 1]
        self._taken = words[start + 1 : start + 2]
        self._void = words[start + 2 : start + 3]
        self._data = floats[start + HEADER_WORDS : start + HEADER_WORDS + width]
        self._scratch = np.zeros(width)
        self.last_read = 0

    def write(self, values: Vector) -> int:
        """Publish ``values`` and return the number of the record. Thread: the only writer."""
        counter = self.counter
        counter[0] += 1
        self._data[:] = values
        counter[0] += 1
        return int(counter[0])

    def pop(self) -> Vector | None:
        """Take the newest record, without waiting. Thread: reader.

        The result is None without a new record, for a withdrawn record, and during a write.
        """
        number = self.counter[0]
        if number == self.last_read or number & 1:
            return None
        self._scratch[:] = self._data
        if self.counter[0] != number:
            return None
        self.last_read = number
        self._taken[0] = number  # withdraw() relies on this store before the read of ``_void``.
        return None if self._void[0] >= number else self._scratch

    @property
    def written(self) -> int:
        """Number of the newest record, which is even; odd while a record is being written."""
        return int(self.counter[0])

    @property
    def taken(self) -> int:
        """Number of the last record that :meth:`pop` has read, including withdrawn records."""
        return int(self._taken[0])

    def withdraw(self, number: int) -> bool:
        """Withdraw a record and all earlier ones, unless the reader has taken them.

        Call it once per record. Thread: the only writer.

        Args:
            number: Number of the record, from :meth:`write`.

        Returns:
            True if the reader never gets the record; False if it has taken the record already.
        """
        self._void[0] = max(self._void[0], number)
        # pop() stores ``_taken`` before it reads ``_void``. If it read ``_void`` before the store
        # above, it has therefore stored ``_taken``, which is visible after the pause.
        time.sleep(STORE_TIME)
        return int(self._taken[0]) < number

    def newest(self) -> Vector | None:
        """Return a copy of the newest record, which stays available to :meth:`pop`. Thread: any.

        The result is None before the first record.
        """
        for _ in range(_TRIES):
            number = self.counter[0]
            values = self._data.copy()
            if number and not number & 1 and self.counter[0] == number:
                return values
        return None

    def skip(self) -> None:
        """Discard the newest record, which :meth:`pop` then does not return. Thread: reader."""
        number = self.counter[0]
        self.last_read = number + (number & 1)


ANSWER_HEADER_WIDTH = 2
"""Number of values at the beginning of a response to settings or a tare: the number of the
request, and 1 if it was executed. The active settings or offsets follow."""
ATTACH_WIDTH = 2 + 7
"""Number of values in an attach request: number of the object or 0, flag of a given pose, and
that pose in the end-effector frame (position, quaternion w x y z)."""
MOVE_WIDTH = 1 + 7 + 6
"""Number of values in a request to move an object. They are the number of the movable object,
its position and quaternion x y z w in the world, its linear velocity in the world, and its
angular velocity in its own axes."""
OBJECT_REQUEST_WIDTH = 1 + MOVE_WIDTH
"""Number of values in a request to spawn, remove or move an object: an :class:`ObjectRequest`,
then the values of a request to move it (:data:`MOVE_WIDTH`)."""
OBJECT_RESULT_WIDTH = 4
"""Number of values in the response: number of the request, an :class:`ObjectResult`, index of the
blocking object in :func:`.collision_names`, and penetration depth [m]."""
ANY_EPOCH = -1
"""Epoch of a switch request that is valid whichever controllets are active, such as a stop."""
REASON_SIZE = 24
"""Number of values in a switch record that hold its reason as UTF-8."""
KEEP_FLAG, RESTART_FLAG = 1, 2
"""Flags of an instance in a switch record: active, and active with a restart from the measured
state. The flag 0 means inactive."""


def reason_record(text: str) -> Vector:
    """Encode the reason of a switch as the last part of a switch request, (REASON_SIZE,).

    A text that is too long is shortened in the middle.
    """
    data, size = text.encode(), 8 * REASON_SIZE
    if len(data) > size:  # The end is kept, because it is the name of the client.
        half = size // 2 - 2
        data = data[:half] + b"..." + data[-half:]
    return np.frombuffer(data.ljust(size, b"\0"), np.float64)


def reason_of(request: Vector) -> str:
    """Return the reason of a switch from the record of its request."""
    return bytes(request[-REASON_SIZE:].tobytes()).rstrip(b"\0").decode("utf-8", "replace")


class SharedFlag(IntEnum):
    """Indices of 64-bit integers in shared memory.

    The owning process writes the integers with indices 0 to 7. The loop writes those from 8 on.
    """

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
    """Response of the loop to a switch request."""

    DONE = 1
    OUTDATED = 2
    FAILED = 3


class ObjectRequest(IntEnum):
    """Kind of a request that changes an object of the scene."""

    REMOVE = 0
    SPAWN = 1
    MOVE = 2


class ObjectResult(IntEnum):
    """Response of the loop to an :class:`ObjectRequest`."""

    DONE = 0
    PRESENT = 1
    ABSENT = 2
    ATTACHED = 3
    INSIDE = 4


class Mailbox:
    """Shared memory for requests, targets, records and events between owning process and loop.

    Args:
        config: Configuration of the cell.
        specs: Controllet instances, equal in both processes.
        fd: File descriptor of the memory that the owning process created, or None to create it.
        read_only: True to map the memory read-only; a write then raises an error.

    Raises:
        LoopError: If the memory ``fd`` does not have the size that this cell needs.
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
        movable = len(movable_objects(config))
        sizes = [arm.robot.n_joints for arm in config.arms.values()]
        joints = max(sizes)
        terms = 1 + max(len(spec.features) for spec in specs)
        sprung = joints if any(arm.actuators for arm in config.arms.values()) else 0
        dimensions = (len(config.arms), movable, len(specs), joints, terms, sprung)
        self.row_dtype = record_dtype(*dimensions)
        widths = [2 + len(specs) + REASON_SIZE, len(config.arms)] + [GRIPPER_RECORD] * len(
            config.arms
        )
        for arm in config.arms.values():
            settings = record_width(type(arm.settings))
            widths += [settings, ANSWER_HEADER_WIDTH + settings]
        for size in sizes:
            widths += [1, ANSWER_HEADER_WIDTH + size]
        widths += [ATTACH_WIDTH] * len(config.arms)
        widths += [MOVE_WIDTH, OBJECT_REQUEST_WIDTH, OBJECT_RESULT_WIDTH] * movable
        widths += [spec.parameter_width for spec in specs]
        for spec in specs:
            for channel in spec.channel_table.values():
                indices = channel.record_count(len(spec.arms))
                widths += [channel.size(n) for n in spec.joints[:indices]]
        n_words = 16 + 2 * len(specs) + sum(HEADER_WORDS + width for width in widths)
        events_at = -(-8 * n_words // 64) * 64
        rows_at = events_at + EVENT_CAPACITY * EVENT_DTYPE.itemsize
        size = rows_at + CAPACITY * self.row_dtype.itemsize
        self.fd = os.memfd_create("multipanda", os.MFD_CLOEXEC) if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, size)
        elif (result := os.fstat(fd).st_size) != size:
            raise LoopError(
                f"shared memory has {result} bytes, but cell {config.cell.name!r} needs {size}: "
                "the loop runs another cell file. Use the same cell file, or restart the cell"
            )
        access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
        self._map = mmap.mmap(self.fd, size, access=access)
        self.words = memoryview(self._map)[: 8 * n_words].cast("q")
        self.active = self.words[16 : 16 + len(specs)]
        # Number of activations of each controllet. An activation resets its targets to the
        # measured state, which clients detect by this number.
        self.activation_counts = self.words[16 + len(specs) : 16 + 2 * len(specs)]
        count = self.words[SharedFlag.EVENTS : SharedFlag.EVENTS + 1]
        self.events = EventRing(self._map, events_at, count, self._arm_names, self._names)
        count = self.words[SharedFlag.ROWS : SharedFlag.ROWS + 1]
        self.ring = RecordRing(self._map, rows_at, self.row_dtype, count)
        self.record_location = RecordLayout(
            size, rows_at, 8 * SharedFlag.ROWS, events_at, 8 * SharedFlag.EVENTS, dimensions
        )
        floats = np.frombuffer(self._map, np.float64, n_words)
        start = 16 + 2 * len(specs)
        slots = []
        for width in widths:
            slots.append(SeqlockBuffer(self.words, floats, start, width))
            start += HEADER_WORDS + width
        supply = iter(slots)
        self.switch, self.recover = next(supply), next(supply)
        self.grippers = [next(supply) for _ in config.arms]
        pairs = [(next(supply), next(supply)) for _ in config.arms]
        self.settings, self.settings_answers = zip(*pairs)
        pairs = [(next(supply), next(supply)) for _ in config.arms]
        self.tares, self.tare_answers = zip(*pairs)
        self.holds = [next(supply) for _ in config.arms]
        objects = [(next(supply), next(supply), next(supply)) for _ in range(movable)]
        self.placed = [slots[0] for slots in objects]
        self.entries = [slots[1] for slots in objects]
        self.entry_answers = [slots[2] for slots in objects]
        self.parameters = [next(supply) for _ in specs]
        self.targets: list[dict[str, list[SeqlockBuffer]]] = [
            {
                name: [next(supply) for _ in range(channel.record_count(len(spec.arms)))]
                for name, channel in spec.channel_table.items()
            }
            for spec in specs
        ]

    def notify(self) -> None:
        """Notify the loop of new requests. Thread: the owning process."""
        self.words[SharedFlag.MAIL] += 1

    def notify_targets(self) -> None:
        """Notify the loop of new targets, but of no other requests. Thread: the owning process."""
        self.words[SharedFlag.TARGETS] += 1

    def report(self, event: Event, time_ns: int, arm: int, controllet: int, text: str) -> None:
        """Append an event, see :meth:`.EventRing.append`. Thread: control."""
        self.events.append(event, time_ns, arm, controllet, text)

    @property
    def cycles(self) -> int:
        """Number of cycles so far.

        Records of changes of objects between two cycles are not counted.
        """
        return int(self.words[SharedFlag.ROWS] - self.words[SharedFlag.SHOWN])

    @property
    def is_paused(self) -> bool:
        """True if the owning process has paused the loop and no cycle is running."""
        return 0 < self.words[SharedFlag.LAST_ROW] <= self.cycles

    @property
    def event_count(self) -> int:
        return self.events.count

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events from number ``count`` on.

        An event :attr:`.Event.LOST` at the beginning replaces events that were overwritten.
        """
        return self.events.since(count)
