# SPDX-License-Identifier: Apache-2.0
"""Cycle records: fields, shapes and units, their ring buffer in shared memory, and its reader.

The loop fills one *record* per cycle and copies it to a ring buffer. Controllets access the fields
of their arms directly, as views (:class:`.ArmState`). Readers of the ring buffer get copies.
``doc/rows.md`` is generated from this module.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.events import EventRing
from multipanda_py.state import JOINTS, MAX_REPORT_VALUES

TRACED_CHANNELS = ("pose", "joint", "twist", "wrench", "object", "internal_force")
"""Channels whose references are recorded; bit k of ``target_channels`` stands for the k-th."""


@dataclass(frozen=True)
class Field:
    """One field of a cycle record, whose numbers all have 8 bytes.

    Attributes:
        name: Name of the field.
        shape: Dimensions. A name such as ``joints``, ``terms`` or ``arms`` stands for a size that
            depends on the cell.
        unit: SI unit; empty for numbers without a unit.
        doc: Description.
        kind: numpy name of the type.
    """

    name: str
    shape: tuple[int | str, ...]
    unit: str
    doc: str
    kind: str = "f8"


ARM_FIELDS = (
    Field("q", ("joints",), "rad", "measured joint positions"),
    Field("dq", ("joints",), "rad/s", "measured joint velocities"),
    Field("tau_J", ("joints",), "Nm", "measured joint torques, gravity included"),
    Field("tau_ext", ("joints",), "Nm", "estimated external joint torques"),
    Field("tau", ("joints",), "Nm", "commanded joint torques, gravity excluded"),
    Field("tau_gravity", ("joints",), "Nm", "gravity torques added by the loop for an arm that "
          "does not compensate gravity itself, including tool, load and attached object"),
    Field("position_ee_in_base", (3,), "m", "position of the end effector in the base"),
    Field("rotation_ee_in_base", (3, 3), "", "rotation matrix of the end effector in the base"),
    Field("twist_ee_in_base", (6,), "m/s, rad/s", "linear, then angular velocity of the end "
          "effector"),
    Field("wrench_ext_in_base", (6,), "N, Nm", "external force and torque on the end effector"),
    Field("finger_positions", (2,), "m", "finger positions"),
    Field("gripper", (3,), "", "number of the last gripper command, its outcome, 1 if an object "
          "is grasped", "i8"),
    Field("attached_object", (), "", "number of the attached movable object, from 1; 0: none",
          "i8"),
    Field("owner", (), "", "index of the controllet that owns the arm", "i8"),
    Field("fault", (), "", "0: none, else a number of `realtime.events.Event`", "i8"),
    Field("state_cycle_ns", (), "ns", "wake-up time of the cycle that read the newest state; 0: "
          "this cycle, or no state yet", "i8"),
    Field("tau_desired", ("joints",), "Nm", "desired torques before limits of value and rate"),
    Field("joint_command", (3, "joints"), "rad, rad/s, rad/s^2", "commanded positions, velocities "
          "and accelerations; without meaning under torque control"),
    Field("interface", (), "", "command interface: 0 torques, 1 positions, 2 velocities", "i8"),
    Field(
        "target_channels", (), "", "bit k: the controllet follows the k-th reference below", "i8"
    ),
    Field("target_pose", (12,), "m", "reference of the end effector in the base: position, then "
          "rotation matrix in row-major order"),
    Field("target_joint", (2, "joints"), "rad, rad/s", "reference positions, then velocities"),
    Field("target_twist", (6,), "m/s, rad/s", "reference velocity of the end effector in the "
          "base"),
    Field("target_wrench", (6,), "N, Nm", "reference wrench exerted by the end effector, in the "
          "base"),
    Field("target_object", (12,), "m", "reference of the grasped object in the world: position, "
          "then rotation matrix in row-major order"),
    Field("target_internal_force", (1,), "N", "reference of the internal force between the arms"),
    Field("torque_terms_recorded", (), "", "number of recorded torque terms; 0: not requested",
          "i8"),
    Field("torque_terms", ("terms", "joints"), "Nm", "torque terms of the controllet, then of "
          "each feature in the order of the cell file"),
    Field("robot_time", (), "s", "clock of the robot at its newest state; 0 for a simulated arm, "
          "whose clock is `time`"),
    Field("robot_mode", (), "", "operating mode of a real robot, numbered as in libfranka: 0 "
          "other, 1 idle, 2 move, 3 guiding, 4 reflex, 5 user stop, 6 error recovery; 0 for a "
          "simulated arm", "i8"),
    Field("robot_errors", (2,), "", "errors of a real robot, current ones and those that ended "
          "the previous motion; bit k: the k-th name of `hardware.franka.errors.ERRORS`", "i8"),
    Field("actuator_command", (4, "sprung"), "rad, m, Nm", "commands to compliant actuators: "
          "mode, or -1 for the torques of a controllet; two commands of the mode, NaN for "
          "unchanged; external torque"),
    Field("actuator_mode", ("sprung",), "", "operation mode of each joint, 0 to 6", "i8"),
    Field("motor_reference", (2, "sprung"), "rad, m", "reference positions of the motors of "
          "compliant actuators"),
    Field("motor_position", (2, "sprung"), "rad, m", "positions of these motors"),
    Field("motor_velocity", (2, "sprung"), "rad/s, m/s", "velocities of these motors"),
    Field("motor_torque", (2, "sprung"), "Nm", "torques of these motors"),
    Field("spring_torque", (2, "sprung"), "Nm", "torques of the springs on these motors"),
    Field("tau_weight", ("sprung",), "Nm", "gravity torque that the robot adds to the torque of "
          "a controllet, before springs exert the sum"),
)  # fmt: skip
"""Fields of each arm. Their size fits the largest arm. Smaller arms use the first elements."""

RECORD_FIELDS = (
    Field("cycle", (), "", "number of the record, from 1", "i8"),
    Field("wake_ns", (), "ns", "start of the cycle, CLOCK_MONOTONIC", "i8"),
    Field("deadline_ns", (), "ns", "planned start of the cycle, CLOCK_MONOTONIC", "i8"),
    Field("compute_ns", (), "ns", "time from the start of the cycle to this record", "i8"),
    Field("control_ns", (), "ns", "time from the start of the cycle until the commands are "
          "computed, before they are written", "i8"),
    Field("missed_cycles", (), "", "number of periods skipped since the start", "i8"),
    Field("epoch", (), "", "number of changes of the active set", "i8"),
    Field("time", (), "s", "time of the controlled world; a record of objects that were spawned, "
          "removed or moved between two cycles has the time of the previous record"),
    Field("arms", ("arms",), "", "record of each arm, see below", "arm"),
    Field("object_poses", ("objects", 7), "m", "movable objects in the world: position, "
          "quaternion w x y z"),
    Field("object_present", ("objects",), "", "1: the movable object is in the scene; 0: it is "
          "absent, and `object_poses` has its parking pose", "i8"),
    Field("reports", ("controllets", MAX_REPORT_VALUES), "",
          "reported numbers of each controllet"),
    Field("cycle_end", (), "", "equal to `cycle`; a copy with another value is incomplete", "i8"),
)  # fmt: skip
HEADER = 7
"""Number of values at the beginning of a record that the cycle writes last."""


def record_dtype(
    n_arms: int,
    n_objects: int,
    n_instances: int,
    joints: int = JOINTS,
    terms: int = 1,
    sprung: int = 0,
) -> np.dtype[np.void]:
    """Return the type of the record of one cycle.

    Args:
        n_arms: Number of arms.
        n_objects: Number of movable objects.
        n_instances: Number of controllet instances.
        joints: Maximum number of joints of an arm.
        terms: Maximum number of torque terms: one for a controllet and one per feature of it.
        sprung: Number of joints in the fields of compliant actuators. It is ``joints`` if an arm
            of the cell has such actuators, otherwise 0.
    """
    sizes = {"joints": joints, "terms": terms, "sprung": sprung}
    arm = _dtype(ARM_FIELDS, sizes, {})
    sizes = {"arms": n_arms, "objects": n_objects, "controllets": n_instances}
    return _dtype(RECORD_FIELDS, sizes, {"arm": arm})


def columns(record: np.dtype[np.void], name: str) -> slice:
    """Return the index range of a field in a record that is viewed as a flat array of numbers."""
    field = record.fields
    if field is None or name not in field:
        raise KeyError(f"the record has no field {name!r}; its fields are {record.names}")
    dtype, offset = field[name][0], int(field[name][1])
    return slice(offset // 8, (offset + dtype.itemsize) // 8)


def _dtype(
    fields: Sequence[Field], sizes: Mapping[str, int], kinds: Mapping[str, np.dtype[np.void]]
) -> np.dtype[np.void]:
    return np.dtype(
        [
            (
                field.name,
                kinds.get(field.kind, field.kind),
                tuple(size if isinstance(size, int) else sizes[size] for size in field.shape),
            )
            for field in fields
        ]
    )


CAPACITY = 4096
"""Number of cycles in the ring, about four seconds at 1 kHz."""
_UNREAD_RECORDS = 64
"""Number of the oldest records that are not read, because they may be overwritten during the
copy."""


# The writer puts record n (from 0) at index n modulo ``CAPACITY``, and increments the count
# afterwards. At count c, record c - ``CAPACITY`` may be partly overwritten, and all later ones are
# complete. A reader copies first, reads the count again, and drops overwritten records.
class RecordRing:
    """Ring buffer of cycle records that readers copy without blocking the writer.

    The processor must keep loads and stores in program order, as x86-64 does.

    Args:
        memory: Shared memory.
        start: Offset of the ring in the memory [bytes].
        dtype: Type of a record.
        count: View of the number of records so far, which is in the same memory, (1,).

    Attributes:
        rows: Buffer of all records, (CAPACITY,), not in the order of time.
        flat: Same buffer as a table of numbers with one row per record, (CAPACITY, n).
    """

    def __init__(
        self, memory: mmap.mmap, start: int, dtype: np.dtype[np.void], count: memoryview
    ) -> None:
        self._count = count
        self.rows: NDArray[np.void] = np.frombuffer(memory, dtype, CAPACITY, start)
        width = dtype.itemsize // 8
        self.flat = np.frombuffer(memory, np.float64, CAPACITY * width, start).reshape(
            CAPACITY, width
        )

    @property
    def count(self) -> int:
        """Number of records so far. Thread: any."""
        return int(self._count[0])

    def append(self, row: NDArray[np.float64]) -> None:
        """Append a record, viewed as numbers (n,). Thread: the only writer."""
        count = self._count[0]
        self.flat[count % CAPACITY] = row
        self._count[0] = count + 1

    def newest(self) -> NDArray[np.float64] | None:
        """Return a copy of the newest record as numbers, (n,); None without records.

        Thread: any.
        """
        while count := self.count:
            row: NDArray[np.float64] = self.flat[(count - 1) % CAPACITY].copy()
            if self.count - count < CAPACITY - 1:
                return row
        return None

    def newest_until(self, column: int, max_value: float) -> NDArray[np.float64]:
        """Return a copy of the newest record whose value in a column is at most ``max_value``.

        The values of the column must increase from record to record. If all are larger than
        ``max_value``, the result is the oldest record. At least one record must exist. Thread:
        any.

        Args:
            column: Index of the column.
            max_value: Maximum value of the column.

        Returns:
            Record as numbers, (n,).
        """
        while True:
            count = self.count
            number = count - 1
            oldest = max(0, count - CAPACITY + _UNREAD_RECORDS)
            while number > oldest and self.flat[number % CAPACITY, column] > max_value:
                number -= 1
            row: NDArray[np.float64] = self.flat[number % CAPACITY].copy()
            if number > self.count - CAPACITY:
                return row

    def read(self, since: int, max_records: int = CAPACITY) -> tuple[int, NDArray[np.void]]:
        """Return copies of the records from number ``since`` on, oldest first. Thread: any.

        Args:
            since: Number of the first record, counted from 0.
            max_records: Maximum number of records; the oldest are returned.

        Returns:
            Number of the first returned record, and the records. The number exceeds ``since`` if
            records were overwritten.
        """
        count = self.count
        first = min(count, max(since, count - CAPACITY + _UNREAD_RECORDS))
        last = min(count, first + max_records)
        rows = np.empty(last - first, self.rows.dtype)
        if first == last:
            return first, rows
        start, size = first % CAPACITY, last - first
        unwrapped = min(size, CAPACITY - start)
        flat = rows.view(np.float64).reshape(size, -1)
        flat[:unwrapped] = self.flat[start : start + unwrapped]
        flat[unwrapped:] = self.flat[: size - unwrapped]
        # Number of the first copied record that was not overwritten during the copy.
        whole = min(last, max(first, self.count - CAPACITY + 1))
        return whole, rows[whole - first :]


@dataclass(frozen=True)
class RecordLayout:
    """Layout of the ring buffers in the shared memory of a cell, as numbers for JSON.

    With it, a process reads records without the cell file and the modules of the controllets.

    Attributes:
        size: Size of the memory [bytes].
        start: Offset of the ring of records [bytes].
        count_at: Offset of the number of records [bytes].
        events_at: Offset of the ring of events [bytes].
        event_count_at: Offset of the number of events [bytes].
        sizes: Values of the arguments of :func:`.record_dtype`, in its order.
    """

    size: int
    start: int
    count_at: int
    events_at: int
    event_count_at: int
    sizes: tuple[int, int, int, int, int, int]

    def open(
        self, fd: int, arms: Sequence[str], controllets: Sequence[str]
    ) -> tuple[RecordRing, EventRing]:
        """Map the memory read-only, and return the rings of records and of events.

        Args:
            fd: File descriptor of the memory; the caller may close it afterwards.
            arms: Names of the arms.
            controllets: Names of the instances.

        Raises:
            LoopError: If the size of the memory is not ``size``, such as after a restart of the
                cell.
        """
        result = os.fstat(fd).st_size
        if result != self.size:
            raise LoopError(
                f"shared memory: got {result} bytes, but the description of the cell says "
                f"{self.size}. Was the cell restarted meanwhile? Repeat the command"
            )
        memory = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        words = [
            memoryview(memory)[at : at + 8].cast("q")
            for at in (self.count_at, self.event_count_at)
        ]
        rows = RecordRing(memory, self.start, record_dtype(*self.sizes), words[0])
        return rows, EventRing(memory, self.events_at, words[1], arms, controllets)


_POLL_PERIOD = 2e-3  # Period of checking for new records [s].


class RecordReader:
    """Reader that returns every cycle record once and in order.

    A slow, stopped or killed reader does not affect the loop. Reading begins with the next record
    that the loop writes.

    Args:
        ring: Ring buffer of the loop.

    Attributes:
        dtype: Type of a record, see ``doc/rows.md``.
        position: Number of the record that :meth:`take` returns next, counted from 0.
        dropped: Number of records that were overwritten before they could be copied.

    Thread: one at a time.
    """

    def __init__(self, ring: RecordRing) -> None:
        self.ring = ring
        self.dtype = ring.rows.dtype
        self.position, self.dropped = ring.count, 0

    @property
    def waiting(self) -> int:
        """Number of records since the last :meth:`take`; above ``CAPACITY``, some are lost."""
        return self.ring.count - self.position

    def newest(self) -> NDArray[np.void] | None:
        """Return a copy of the newest record, shape (); None without records."""
        row = self.ring.newest()
        return None if row is None else row.view(self.dtype)[0]

    def take(self, max_records: int = CAPACITY) -> NDArray[np.void]:
        """Return the records since the last call, oldest first.

        Args:
            max_records: Maximum number of records; the remaining ones are returned by later calls.
        """
        first, rows = self.ring.read(self.position, max_records)
        self.dropped += first - self.position
        self.position = first + len(rows)
        return rows

    def wait(self, timeout: float, max_records: int = CAPACITY) -> NDArray[np.void]:
        """Wait for a new record, then return the records since the last call, oldest first.

        The result is empty after a timeout.

        Args:
            timeout: Maximum waiting time [s].
            max_records: Maximum number of records.
        """
        deadline = time.monotonic() + timeout
        while not self.waiting and time.monotonic() < deadline:
            time.sleep(_POLL_PERIOD)
        return self.take(max_records)
