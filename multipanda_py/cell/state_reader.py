# SPDX-License-Identifier: Apache-2.0
"""What can be known of a running cell: states, rows, reports, timing, events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.history import RecordedMoment
from multipanda_py.cell.names import CellNames
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import movable_things
from multipanda_py.exceptions import ActuatorRefused, LoopError
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle_record import ARM_FIELDS, columns, row_dtype
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.timing import LoopStatistics, summarise
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.gripper import Outcome
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import INTERFACES, ArmSnapshot, Matrix, Vector
from multipanda_py.targets import Reports


@dataclass(frozen=True, eq=False)
class ActuatorSnapshot:
    """The m joints of an arm that have compliant actuators, as they were in one cycle.

    Attributes:
        joints: Their names, without the arm's prefix.
        modes: Their operation modes.
        q: Positions of links, (m,) [rad].
        dq: Their velocities, (m,) [rad/s].
        torque: On links: of springs, or of what drives rigid ones, (m,) [Nm].
        stiffness: Of springs at links, (m,) [Nm/rad]; zero without springs in between.
        reference: Where both motors are asked to be, (2, m) [rad, or m where that is their unit].
        position: Where they are, (2, m).
        velocity: How fast, (2, m).
        motor_torque: What they exert, (2, m) [Nm].
        load: What springs exert on them, (2, m) [Nm].
        equilibrium: Where springs would be at rest, (m,) [rad].
        preset: Of their stiffness, (m,).
    """

    joints: tuple[str, ...]
    modes: tuple[OperationMode, ...]
    q: Vector
    dq: Vector
    torque: Vector
    stiffness: Vector
    reference: Matrix
    position: Matrix
    velocity: Matrix
    motor_torque: Matrix
    load: Matrix
    equilibrium: Vector
    preset: Vector


class ActuatorReader:
    """Find the actuators of arms in rows, and compute what follows from where motors are.

    Args:
        names: Of the cell's arms.

    Thread: any.
    """

    def __init__(self, names: CellNames) -> None:
        self._names = names
        self._springs: dict[str, JointSprings] = {}

    def of(self, row: NDArray[np.void], arm: str) -> ActuatorSnapshot:
        """Return what the actuators of an arm do.

        Args:
            row: Of a cycle, shape ().
            arm: Name of the arm.

        Raises:
            UnknownName: If it does not exist.
            ActuatorRefused: If it has no compliant actuators.
        """
        record = row["arms"][self._names.arm_index(arm)]
        joints = self._names.descriptions[arm].actuated
        if joints is None:
            raise ActuatorRefused(f"{arm}: got no compliant actuators, allowed arms with some")
        q, dq, torque, numbers, reference, position, velocity, exerted, load = (
            record[name][..., joints.places]
            for name in (
                "q", "dq", "tau_J", "actuator_mode", "motor_reference", "motor_position",
                "motor_velocity", "motor_torque", "motor_load",
            )
        )  # fmt: skip
        modes, springs = tuple(map(OperationMode, numbers.tolist())), self._springs_of(arm)
        elastic = np.array([not mode.is_rigid for mode in modes])
        stiffness = np.where(elastic, springs.stiffness(q, position), 0.0)
        return ActuatorSnapshot(
            joints.names, modes, q, dq, torque, stiffness, reference, position, velocity,
            exerted, load, springs.equilibrium_of(position), springs.preset_of(position),
        )  # fmt: skip

    def _springs_of(self, arm: str) -> JointSprings:
        """Return the springs of an arm; made when first asked for."""
        if arm not in self._springs:
            # Needs mujoco, which whoever has such an arm has: cells of other arms do without.
            from multipanda_py.simulation.actuators.arm import CompliantGroups

            groups = CompliantGroups([self._names.arm_config(arm)])
            self._springs[arm] = JointSprings(groups.springs, groups.count)
        return self._springs[arm]


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


SILENT = 0.05
"""Silence of the loop from which on nothing is handed to it that nobody waits for [s]."""


class StateReader:
    """Read a cell's mailbox; nothing here changes anything.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
    """

    def __init__(self, names: CellNames, connection: Connection) -> None:
        self._names, self._connection = names, connection
        self._movable = movable_things(names.config)
        self._events_seen = 0
        self._snapshots: dict[str, Snapshots] = {}
        self._time_at = columns(row_dtype(0, 0, 0), "time").start

    def silence_reason(self) -> str:
        """Say that the loop stands still, and what its arms do meanwhile; empty if it runs."""
        silence = self._connection.silence()
        if silence < SILENT:
            return ""
        if self._connection.mailbox.is_paused:
            return "the simulation is paused"
        text = f"the loop has not run for {silence:.2f} s (allowed {SILENT:g} s)"
        arms_of: dict[str, list[str]] = {}
        for name, arm in self._names.config.arms.items():
            arms_of.setdefault(arm.backend, []).append(name)
        clauses = [find_backend(name).describe_silence(arms) for name, arms in arms_of.items()]
        known = "; ".join(dict.fromkeys(filter(None, clauses)))
        return f"{text}: {known}" if known else text

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active instances, holds included."""
        flags = self._connection.mailbox.active
        return tuple(spec.name for spec in self._names.specs if flags[spec.index])

    def beginnings(self, arm: str) -> int:
        """Return how often a law has begun on an arm: another number, another beginning."""
        counts = self._connection.mailbox.beginnings
        specs = self._names.specs
        return sum(counts[spec.index] for spec in specs if arm in spec.config.arms)

    @property
    def time(self) -> float:
        """Time of the controlled world in the newest row [s].

        Raises:
            LoopError: If the loop has not run yet.
        """
        return float(self._newest_flat()[self._time_at])

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm.

        Raises:
            LoopError: If the loop has not run yet.
        """
        return self._snapshots_of(arm).of(self._newest_flat())

    def _snapshots_of(self, arm: str) -> Snapshots:
        if arm not in self._snapshots:
            index, joints = self._names.arm_index(arm), self._names.limits(arm).n_joints
            instances = [spec.name for spec in self._names.specs]
            kind = self._connection.mailbox.ring.rows.dtype
            self._snapshots[arm] = Snapshots(arm, index, joints, instances, kind)
        return self._snapshots[arm]

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of the tool in the base of its arm.

        Raises:
            LoopError: If the loop has not run yet, or what was measured is no number.
        """
        return self._moment(self._newest_flat()).pose(arm)

    def at(self, time: float) -> RecordedMoment:
        """Return what was at an instant [s], to a cycle: the newest row that is not after it.

        The loop keeps some four seconds; of what is older, the oldest row is returned.

        Raises:
            LoopError: If the loop has not run yet.
        """
        self._newest_flat()  # waits for the first cycle
        half = 0.5 / self._names.config.cell.rate
        return self._moment(self._connection.mailbox.ring.newest_until(self._time_at, time + half))

    def gripper_answer(self, arm: str) -> tuple[int, Outcome, bool, float]:
        """Return the loop's newest word on a gripper.

        Returns:
            Number of the last command it has begun, its outcome, whether an object is held,
            and the width [m].
        """
        index = self._names.arm_index(arm)
        record = self._newest()["arms"][index]
        number, outcome, held = record["gripper"].tolist()
        return number, Outcome(outcome), bool(held), max(0.0, float(record["fingers"].sum()))

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable things that are in the scene, in the world."""
        return self._moment(self._newest_flat()).objects()

    def report(self, name: str) -> Reports:
        """Return what a controllet reports of its last cycle, by ``name [unit]``.

        To decide something by a number, read it by its declaration: :meth:`.Reports.value`.
        """
        spec = self._names.spec(name)
        values = self._newest()["reports"][spec.index].tolist()
        return Reports(zip(map(str, spec.law.report_names), values))

    def row(self) -> NDArray[np.void]:
        """Return a copy of the newest row: the cycle's times and every arm's state."""
        return self._newest()

    def rows(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles so far, and copies of the rows after the first ``since``.

        The loop keeps the last few thousand rows; what is older is left out.
        """
        first, rows = self._connection.mailbox.ring.read(since)
        return first + len(rows), rows

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return how well the last cycles kept their time."""
        total = self._connection.mailbox.ring.count
        return summarise(self.rows(max(0, total - cycles))[1])

    def events(self) -> list[LoopEvent]:
        """Return the loop's reports since the last call."""
        self._events_seen, found = self.events_since(self._events_seen)
        return found

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of reports so far, and those after the first ``count``."""
        return self._connection.mailbox.events_since(count)

    def _moment(self, flat: Vector) -> RecordedMoment:
        row = flat.view(self._connection.mailbox.ring.rows.dtype)[0]
        return RecordedMoment(row, lambda arm: self._snapshots_of(arm).of(flat), self._movable)

    def _newest(self) -> NDArray[np.void]:
        """Return a copy of the newest row, once the loop has run a cycle."""
        rows = self._newest_flat().view(self._connection.mailbox.ring.rows.dtype)
        row: NDArray[np.void] = rows[0]
        return row

    def _newest_flat(self) -> Vector:
        """Return the same, seen as numbers."""
        ring = self._connection.mailbox.ring
        if not ring.count:
            self._connection.wait(lambda: ring.count > 0, 5.0, "the first cycle")
        row = ring.newest()
        if row is None:
            raise LoopError("the loop has not run a cycle yet")
        return row
