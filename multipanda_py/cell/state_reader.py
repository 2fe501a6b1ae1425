# SPDX-License-Identifier: Apache-2.0
"""Readers of the state of a running cell: arms, objects, reports, timing and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.describe import movable_objects
from multipanda_py.exceptions import ActuatorRejected, LoopError, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle_record import ARM_FIELDS, columns, record_dtype
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.timing import LoopStatistics, summarise
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.gripper import Outcome
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import COMMAND_INTERFACES, ArmSnapshot, Matrix, Vector
from multipanda_py.targets import Reports


class HistorySnapshot:
    """States of all arms and objects in one past cycle.

    Attributes:
        record: Record of this cycle.
        state: Function that returns the state of an arm in this cycle, by name.
    """

    def __init__(
        self, record: NDArray[np.void], state: Callable[[str], ArmSnapshot], movable: Iterable[str]
    ) -> None:
        self.record, self.state, self._movable = record, state, tuple(movable)

    @property
    def time(self) -> float:
        """Cell time of the cycle [s]."""
        return float(self.record["time"])

    def pose(self, arm: str) -> Pose:
        """Return the measured tool pose in the base of its arm.

        Raises:
            LoopError: If the measured joint positions are not finite.
        """
        state = self.state(arm)
        try:
            return Pose(state.position_ee_in_base, state.rotation_ee_in_base)
        except TargetRejected:
            raise LoopError(
                f"{arm}: no tool pose, because its measured joint positions {state.q.tolist()} "
                "are not finite"
            ) from None

    def objects(self) -> dict[str, Pose]:
        """Return the world poses of the movable objects that are in the scene, by name."""
        row = self.record
        return {
            name: Pose.from_quaternion(p[:3], [*p[4:], p[3]])
            for name, p, is_present in zip(
                self._movable, row["object_poses"], row["object_present"]
            )
            if is_present
        }


@dataclass(frozen=True, eq=False)
class ActuatorSnapshot:
    """State of the m joints of an arm with compliant actuators, in one cycle.

    The rows of (2, m) arrays belong to the two motors of each actuator.

    Attributes:
        joints: Names of the joints, without the prefix of the arm.
        modes: Operation modes of the joints.
        q: Link positions, (m,) [rad].
        dq: Link velocities, (m,) [rad/s].
        torque: Torque of the springs on the links, or of the drives in modes without springs, (m,)
            [Nm].
        stiffness: Stiffness of each joint, (m,) [Nm/rad]; zero in modes without springs.
        reference: Commanded motor positions, (2, m) [rad, or m for linear motors].
        position: Motor positions, (2, m) [rad or m].
        velocity: Motor velocities, (2, m) [rad/s or m/s].
        motor_torque: Torques that the motors exert, (2, m) [Nm, or N].
        load: Torques that the springs exert on the motors, (2, m) [Nm, or N].
        equilibrium: Link positions at which the springs exert no torque, (m,) [rad].
        preset: Stiffness presets of the springs, from the motor positions, (m,) [rad or m].
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
    """Reader of the state of compliant actuators, with computed stiffness and equilibrium.

    Thread: any.
    """

    def __init__(self, names: CellNames) -> None:
        self._names = names
        self._springs: dict[str, JointSprings] = {}

    def snapshot(self, record: NDArray[np.void], arm: str) -> ActuatorSnapshot:
        """Return the actuator state of an arm in a cycle, from the record of this cycle.

        Raises:
            UnknownName: If there is no such arm.
            ActuatorRejected: If the arm has no compliant actuators.
        """
        arm_record = record["arms"][self._names.arm_index(arm)]
        joints = self._names.descriptions[arm].actuated
        if joints is None:
            raise ActuatorRejected(f"{arm}: the arm has no compliant actuators")
        q, dq, torque, numbers, reference, position, velocity, exerted, load = (
            arm_record[name][..., joints.joint_indices]
            for name in (
                "q", "dq", "tau_J", "actuator_mode", "motor_reference", "motor_position",
                "motor_velocity", "motor_torque", "spring_torque",
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
        if arm not in self._springs:
            # This import needs mujoco, which cells without compliant actuators do not.
            from multipanda_py.simulation.actuators.arm import CompliantGroups

            groups = CompliantGroups([self._names.arm_config(arm)])
            self._springs[arm] = JointSprings(groups.springs, groups.count)
        return self._springs[arm]


_SHOWN = {field.name for field in fields(ArmSnapshot)}


class SnapshotReader:
    """Fast reader of the state of one arm from the record of a cycle.

    Thread: any.
    """

    def __init__(
        self,
        arm: str,
        index: int,
        joints: int,
        instances: Sequence[str],
        row_dtype: np.dtype[np.void],
    ) -> None:
        self._arm, self._instances = arm, instances
        record = np.empty(0, row_dtype)["arms"].dtype
        start = columns(row_dtype, "arms").start + index * record.itemsize // 8
        self._time = columns(row_dtype, "time").start
        self._owner, self._fault, self._interface = (
            start + columns(record, name).start for name in ("owner", "fault", "interface")
        )
        self._vectors: list[tuple[str, slice]] = []
        self._matrices: list[tuple[str, slice, int]] = []
        for field in ARM_FIELDS:
            if field.name not in _SHOWN or not field.shape:
                continue
            columns_of_field = columns(record, field.name)
            size = (
                joints
                if field.shape == ("joints",)
                else columns_of_field.stop - columns_of_field.start
            )
            columns_of_field = slice(
                start + columns_of_field.start, start + columns_of_field.start + size
            )
            if len(field.shape) == 1:
                self._vectors.append((field.name, columns_of_field))
            else:
                self._matrices.append((field.name, columns_of_field, int(field.shape[0])))

    def snapshot(self, record: Vector) -> ArmSnapshot:
        """Return the state of the arm in a cycle. Its arrays share memory with the record."""
        words = record.view(np.int64)
        fault = int(words[self._fault])
        # This is faster than the constructor of a frozen dataclass.
        snapshot = object.__new__(ArmSnapshot)
        fields = snapshot.__dict__
        fields["name"], fields["time"] = self._arm, float(record[self._time])
        fields["owner"] = self._instances[int(words[self._owner])]
        fields["fault"] = Event(fault).name.lower() if fault else ""
        fields["interface"] = COMMAND_INTERFACES[int(words[self._interface])]
        for name, index in self._vectors:
            fields[name] = record[index]
        for name, index, rows in self._matrices:
            fields[name] = record[index].reshape(rows, -1)
        return snapshot


STALE_CYCLE_TIME = 0.05
"""Time without a cycle after which the cell refuses targets and parameters [s]."""


class StateReader:
    """Reader of the state of a cell from the memory shared with the loop."""

    def __init__(self, names: CellNames, connection: Connection) -> None:
        self._names, self._connection = names, connection
        self._movable = movable_objects(names.config)
        self._event_count = 0
        self._snapshots: dict[str, SnapshotReader] = {}
        self._time_at = columns(record_dtype(0, 0, 0), "time").start

    def stall_reason(self) -> str:
        """Return the reason why the loop is blocked or paused; empty while it runs."""
        age = self._connection.cycle_age()
        if age < STALE_CYCLE_TIME:
            return ""
        if self._connection.mailbox.is_paused:
            return "the simulation is paused"
        text = f"the loop has not run for {age:.2f} s (allowed {STALE_CYCLE_TIME:g} s)"
        arms_of: dict[str, list[str]] = {}
        for name, arm in self._names.config.arms.items():
            arms_of.setdefault(arm.backend, []).append(name)
        clauses = [find_backend(name).describe_stall(arms) for name, arms in arms_of.items()]
        known = "; ".join(dict.fromkeys(filter(None, clauses)))
        return f"{text}: {known}" if known else text

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active controllets, including ``hold``."""
        flags = self._connection.mailbox.active
        return tuple(spec.name for spec in self._names.specs if flags[spec.index])

    def activation_count(self, arm: str) -> int:
        """Return the number of controllet activations on an arm since the start of the cell."""
        counts = self._connection.mailbox.activation_counts
        specs = self._names.specs
        return sum(counts[spec.index] for spec in specs if arm in spec.config.arms)

    @property
    def time(self) -> float:
        """Cell time of the newest cycle [s]: simulated time, or robot time with real arms.

        Raises:
            LoopError: If the loop has not run yet.
        """
        return float(self._newest_numbers()[self._time_at])

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm.

        Raises:
            LoopError: If the loop has not run yet.
        """
        return self._snapshots_of(arm).snapshot(self._newest_numbers())

    def _snapshots_of(self, arm: str) -> SnapshotReader:
        if arm not in self._snapshots:
            index, joints = self._names.arm_index(arm), self._names.limits(arm).n_joints
            instances = [spec.name for spec in self._names.specs]
            kind = self._connection.mailbox.ring.rows.dtype
            self._snapshots[arm] = SnapshotReader(arm, index, joints, instances, kind)
        return self._snapshots[arm]

    def pose(self, arm: str) -> Pose:
        """Return the measured tool pose in the base of its arm.

        Raises:
            LoopError: If the loop has not run yet, or the measured joint positions are not finite.
        """
        return self._moment(self._newest_numbers()).pose(arm)

    def snapshot_at(self, time: float) -> HistorySnapshot:
        """Return the state at a past cell time [s].

        The loop keeps about four seconds; for an earlier time, the oldest state is returned.

        Raises:
            LoopError: If the loop has not run yet.
        """
        self._newest_numbers()  # Waits for the first cycle.
        half = 0.5 / self._names.config.cell.rate
        return self._moment(self._connection.mailbox.ring.newest_until(self._time_at, time + half))

    def gripper_answer(self, arm: str) -> tuple[int, Outcome, bool, float]:
        """Return the state of a gripper in the newest cycle.

        Returns:
            Sequence number of the last started command, outcome of this command, True if an object
            is held, and finger width [m].
        """
        index = self._names.arm_index(arm)
        record = self._newest_record()["arms"][index]
        number, outcome, held = record["gripper"].tolist()
        return (
            number,
            Outcome(outcome),
            bool(held),
            max(0.0, float(record["finger_positions"].sum())),
        )

    def objects(self) -> dict[str, Pose]:
        """Return the world poses of the movable objects that are in the scene, by name."""
        return self._moment(self._newest_numbers()).objects()

    def report(self, name: str) -> Reports:
        """Return the values that a controllet reported in the newest cycle.

        Keys are names with units, such as ``force [N]``; :meth:`.Reports.value` returns one value.
        """
        spec = self._names.spec(name)
        values = self._newest_record()["reports"][spec.index].tolist()
        return Reports(zip(map(str, spec.controllet_class.report_names), values))

    def latest_record(self) -> NDArray[np.void]:
        """Return a copy of the record of the newest cycle: times, and the state of every arm."""
        return self._newest_record()

    def records(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles so far, and the records of cycles after number ``since``.

        Only the last few thousand cycles are available.
        """
        first, rows = self._connection.mailbox.ring.read(since)
        return first + len(rows), rows

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return timing statistics of the last ``cycles`` cycles."""
        total = self._connection.mailbox.ring.count
        return summarise(self.records(max(0, total - cycles))[1])

    def events(self) -> list[LoopEvent]:
        """Return the events of the loop since the last call."""
        self._event_count, events = self.events_since(self._event_count)
        return events

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``."""
        return self._connection.mailbox.events_since(count)

    def _moment(self, flat: Vector) -> HistorySnapshot:
        row = flat.view(self._connection.mailbox.ring.rows.dtype)[0]
        return HistorySnapshot(
            row, lambda arm: self._snapshots_of(arm).snapshot(flat), self._movable
        )

    def _newest_record(self) -> NDArray[np.void]:
        rows = self._newest_numbers().view(self._connection.mailbox.ring.rows.dtype)
        row: NDArray[np.void] = rows[0]
        return row

    def _newest_numbers(self) -> Vector:
        ring = self._connection.mailbox.ring
        if not ring.count:
            self._connection.wait(lambda: ring.count > 0, 5.0, "the first cycle")
        row = ring.newest()
        if row is None:
            raise LoopError("the loop has not run yet. Wait for its first cycle")
        return row
