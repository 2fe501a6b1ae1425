# SPDX-License-Identifier: Apache-2.0
"""Log of one arm as arrays, from cycle records or files, and its conversion for identification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import IdentificationRejected, LogError, UnknownName
from multipanda_py.realtime.cycle_record import ARM_FIELDS
from multipanda_py.realtime.recording.measured_motion import GAP_PERIODS, MeasuredMotion
from multipanda_py.robots.geometry import gravity_in_base
from multipanda_py.state import Matrix, Vector

if TYPE_CHECKING:
    import pandas as pd


JOINT_COLUMNS = ("q", "dq", "tau", "tau_commanded")
_OWN_COLUMNS = ("time", *JOINT_COLUMNS)
_EQUAL_FIELDS = (
    "joints", "robot", "gravity_in_tau", "gravity_in_tau_commanded", "rotors_in_tau", "laws",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArmLog:
    """Samples of one arm with j joints at n instants; None for quantities that are not recorded.

    Attributes:
        arm: Name of the arm in the cell, or in the file.
        robot: Name of the robot model, such as ``fr3``; None if unknown.
        joints: Joint names without the prefix of the arm, (j,).
        time: Robot time, strictly increasing, (n,) [s]. If several recordings were joined, later
            ones may be shifted in time.
        q: Measured positions, (n, j) [rad; m for prismatic joints].
        dq: Measured velocities, (n, j) [rad/s].
        tau: Measured joint torques, (n, j) [Nm].
        tau_commanded: Commanded joint torques, (n, j) [Nm].
        gravity_in_tau: True if measured torques include gravity, as libfranka's ``tau_J`` and all
            logs of this package do.
        gravity_in_tau_commanded: True if commanded torques include gravity. Those of libfranka
            (``tau_J_d``) and of this package exclude it.
        columns: Other columns by name, each (n, ...), such as ``tau_ext``, ``target_pose`` or
            ``fault``; ``doc/rows.md`` lists all names.
        laws: Names of the controllets. The column ``owner`` contains indices into this tuple.
        starts: Indices of the samples at which joined recordings begin; the first is 0.
        gravity_in_base: Gravity in the base frame, (3,) [m/s^2]; None if unknown: the z axis of
            the base is then taken as vertical.
        rotors_in_tau: True if ``tau`` includes the torque that accelerates the rotors; False for
            sensors between gear and link.

    Raises:
        LogError: If shapes do not match, or time does not increase.
    """

    arm: str
    robot: str | None
    joints: tuple[str, ...]
    time: Vector
    q: Matrix
    dq: Matrix | None = None
    tau: Matrix | None = None
    tau_commanded: Matrix | None = None
    gravity_in_tau: bool = True
    gravity_in_tau_commanded: bool = False
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    laws: tuple[str, ...] = ()
    starts: tuple[int, ...] = (0,)
    gravity_in_base: Vector | None = None
    rotors_in_tau: bool = True

    def __post_init__(self) -> None:
        n, j = len(self.time), len(self.joints)
        for name in JOINT_COLUMNS:
            values = getattr(self, name)
            if values is not None and values.shape != (n, j):
                raise LogError(f"{self.arm}: {name} has shape {values.shape}, allowed {(n, j)}")
        for name, values in self.columns.items():
            if len(values) != n:
                raise LogError(f"{self.arm}: {name} has {len(values)} samples, allowed {n}")
        if not n:
            raise LogError(f"{self.arm}: the log has no samples")
        wrong = np.flatnonzero(~(np.diff(self.time) > 0.0))
        if len(wrong) or not np.isfinite(self.time[0]):
            at = int(wrong[0]) if len(wrong) else 0
            pair = ", ".join(f"{value:.6f}" for value in self.time[at : at + 2])
            raise LogError(
                f"{self.arm}: time has to increase from sample to sample, got {pair} s at sample "
                f"{at}: the clock was set, or samples are not in order"
            )

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column by name, including ``q``, ``dq``, ``tau`` and ``tau_commanded``.

        Raises:
            UnknownName: If it was not recorded; the message lists the columns.
        """
        if name not in self.names:
            raise UnknownName(f"column of {self.arm}", name, self.names)
        values: NDArray[Any] = getattr(self, name) if name in _OWN_COLUMNS else self.columns[name]
        return values

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all recorded columns, ``time`` first."""
        own = [name for name in _OWN_COLUMNS if getattr(self, name) is not None]
        return (*own, *self.columns)

    @property
    def rate(self) -> float:
        """Sample rate outside gaps [Hz]; 0 for a single sample."""
        return 1.0 / self.period if len(self) > 1 else 0.0

    @property
    def period(self) -> float:
        """Median time between samples [s]; 0 for a single sample."""
        return float(np.median(np.diff(self.time))) if len(self) > 1 else 0.0

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1] - self.time[0])

    def gaps(self, longer_than: float | None = None) -> Matrix:
        """Return the times of the samples before and after each gap, (m, 2) [s].

        Args:
            longer_than: Minimum time between successive samples to count as a gap [s]; by default
                :data:`.GAP_PERIODS` times :attr:`period`.
        """
        step = np.diff(self.time)
        limit = GAP_PERIODS * self.period if longer_than is None else longer_than
        at = np.flatnonzero(step > limit)
        return np.stack([self.time[at], self.time[at + 1]], axis=1)

    def segments(self, longer_than: float | None = None, min_count: int = 1) -> list[slice]:
        """Return the index ranges of samples without gaps; a joined recording also ends a range.

        Args:
            longer_than: Minimum length of a gap [s], as for :meth:`gaps`.
            min_count: Minimum number of samples of a range; shorter ones are omitted.
        """
        after = np.searchsorted(self.time, self.gaps(longer_than)[:, 1]).tolist()
        bounds = sorted({0, *self.starts, *after, len(self)})
        runs = [slice(start, end) for start, end in pairwise(bounds)]
        return [run for run in runs if run.stop - run.start >= min_count]

    def part(self, run: slice) -> ArmLog:
        """Return a range of the samples as a log, whose arrays are views of this log.

        Args:
            run: Range of samples with a positive step.
        """
        selected = range(len(self))[run]
        starts = [max(0, -((selected.start - start) // selected.step)) for start in self.starts]
        inside = tuple(sorted({0, *(start for start in starts if start < len(selected))}))
        return self.with_columns({name: self[name][run] for name in self.names}, inside)

    def with_columns(
        self, columns: Mapping[str, NDArray[Any]], starts: tuple[int, ...] = (0,)
    ) -> ArmLog:
        """Return a log of the same arm with other samples.

        Args:
            columns: Arrays of equal length, by column name. ``time`` and ``q`` are required.
            starts: Indices of the samples at which joined recordings begin.
        """
        return replace(
            self,
            time=columns["time"],
            q=columns["q"],
            dq=columns.get("dq"),
            tau=columns.get("tau"),
            tau_commanded=columns.get("tau_commanded"),
            columns={name: values for name, values in columns.items() if name not in _OWN_COLUMNS},
            starts=starts,
        )

    def between(self, start_time: float, end: float) -> ArmLog:
        """Return the samples in the interval [``start_time``, ``end``) of robot time [s]."""
        first, last = np.searchsorted(self.time, [start_time, end]).tolist()
        return self.part(slice(first, last))

    def to_pandas(self) -> pd.DataFrame:
        """Return a table: ``time``, ``q1`` ... ``qj``, ``dq1`` ..., then all other columns.

        A vector or matrix has one column per element, numbered from 1 in row-major order. The
        column ``law`` is the name of the controllet that owns the arm.
        """
        from multipanda_py.registry import needed

        table: dict[str, NDArray[Any]] = {}
        for name in self.names:
            flat = self[name].reshape(len(self), -1)
            if self[name].ndim == 1:
                table[name] = flat[:, 0]
            else:
                table.update({f"{name}{k}": flat[:, k - 1] for k in range(1, flat.shape[1] + 1)})
        if "owner" in self.columns and self.laws:
            table["law"] = np.array(self.laws, dtype=object)[self.columns["owner"]]
        return needed("pandas").DataFrame(table)


def joined(logs: list[ArmLog]) -> ArmLog:
    """Join several recordings of one arm to one log, in the given order.

    A recording that does not begin after the end of the previous one is shifted to begin one
    second later. Columns that are not in all recordings are dropped.

    Raises:
        LogError: If robots, joints or controllets differ, or if only some recordings have torques
            that include gravity or rotor inertia.
    """
    first = logs[0]
    for other in logs[1:]:
        for name in _EQUAL_FIELDS:
            got, allowed = getattr(other, name), getattr(first, name)
            if got != allowed:
                raise LogError(
                    f"{first.arm}: logs with different {name} cannot be joined: got {got} and "
                    f"{allowed}"
                )
    if len(logs) == 1:
        return first
    common = [name for name in first.names if all(name in log.names for log in logs)]
    time: list[Vector] = []
    starts: list[int] = []
    samples, end = 0, -np.inf
    for log in logs:
        shift = end + 1.0 - log.time[0] if log.time[0] <= end else 0.0
        starts += [samples + start for start in log.starts]
        time.append(log.time + shift)
        samples += len(log)
        end = float(time[-1][-1])
    values = {name: np.concatenate([log[name] for log in logs]) for name in common[1:]}
    return first.with_columns({"time": np.concatenate(time), **values}, starts=tuple(starts))


def motion_of(log: ArmLog, name: str, gravity: Any = None) -> MeasuredMotion:
    """Return the motion of an arm from its log, for identification.

    Args:
        log: Log of the arm.
        name: Name of the log, for messages.
        gravity: Gravity in the base frame, (3,) [m/s^2]; None to use that of the log.

    Raises:
        IdentificationRejected: If torques were not recorded, or do not include gravity.
    """
    if log.tau is None:
        got = ", ".join(log.names)
        raise IdentificationRejected(
            f"{name}: measured torques (tau) are missing; the log has the columns {got}"
        )
    if not log.gravity_in_tau:
        raise IdentificationRejected(
            f"{name}: the torques do not include gravity. Use a log of measured torques"
        )
    own = log.gravity_in_base if gravity is None else gravity
    return MeasuredMotion(
        name, log.time, log.q, log.tau, log.dq, own, log.joints, log.starts, log.rotors_in_tau
    )


_COLUMN_NAMES = {"q": "q", "dq": "dq", "tau_J": "tau", "tau": "tau_commanded"}
_OMITTED_FIELDS = ("state_cycle_ns", "robot_time", "robot_mode", "robot_errors")
_JOINT_FIELDS = {field.name for field in ARM_FIELDS if {*field.shape} & {"joints", "sprung"}}


@dataclass(frozen=True)
class ArmFacts:
    """Properties of an arm that its log contains.

    Attributes:
        name: Name in the cell.
        robot: Name of the robot model.
        joints: Joint names without the prefix of the arm.
        gravity_in_base: Gravity in the base frame, (3,) [m/s^2].
        rotors_in_tau: True if measured torques include the torque that accelerates the rotors.
    """

    name: str
    robot: str
    joints: Sequence[str]
    gravity_in_base: Sequence[float]
    rotors_in_tau: bool = True


def arm_log_of_records(
    records: Mapping[str, NDArray[Any]],
    cycles: NDArray[np.void],
    facts: ArmFacts,
    laws: tuple[str, ...],
) -> ArmLog:
    """Return the log of an arm from cycle records; cycles without a new arm state are omitted.

    Args:
        records: Fields of the arm in n cycle records by name, (n, ...) each.
        cycles: Fields ``time`` and ``wake_ns`` of the same records, a structured array (n,).
        facts: Properties of the arm.
        laws: Names of the controllets, by the index ``owner``.

    Raises:
        LogError: If there is no record.
    """
    if not len(cycles):
        raise LogError(f"{facts.name}: the log has no samples")
    sensed = records["state_cycle_ns"]
    own_time = records.get("robot_time", np.zeros(len(cycles)))
    time = own_time if own_time.any() else cycles["time"]
    is_new = (sensed == 0) | (sensed == cycles["wake_ns"])
    is_new[1:] &= (time[1:] != time[:-1]) | (sensed[1:] != sensed[:-1])
    selected = np.flatnonzero(is_new) if is_new.any() else np.array([0])
    time, starts, is_selected = _with_increasing_time(time[selected])
    selected = selected[is_selected]
    joints = len(facts.joints)
    result: dict[str, NDArray[Any]] = {"time": time}
    for name, values in records.items():
        # A size of 0 means that no arm of the cell has this field, because no arm has compliant
        # actuators.
        if name in _OMITTED_FIELDS or 0 in values.shape[1:]:
            continue
        taken = values[selected]
        if name in _JOINT_FIELDS:  # Fields have the size of the arm with the most joints.
            taken = taken[..., :joints]
        result[_COLUMN_NAMES.get(name, name)] = np.ascontiguousarray(taken)
    if not result["torque_terms_recorded"].any():
        del result["torque_terms"]
    return ArmLog(
        arm=facts.name,
        robot=facts.robot,
        joints=tuple(facts.joints),
        time=time,
        q=result["q"],
        laws=laws,
        gravity_in_base=np.array(facts.gravity_in_base),
        rotors_in_tau=facts.rotors_in_tau,
    ).with_columns(result, starts)


def _with_increasing_time(time: Vector) -> tuple[Vector, tuple[int, ...], NDArray[np.bool_]]:
    # A time that decreases, such as after a reset of the simulation, begins a new recording. It is
    # shifted to begin one second after the previous recording.
    step = np.diff(time)
    selected = np.concatenate([[True], step != 0.0])
    time = time[selected].copy()
    back = np.flatnonzero(np.diff(time) < 0.0) + 1
    for at in back.tolist():
        time[at:] += time[at - 1] + 1.0 - time[at]
    return time, (0, *back.tolist()), selected


def arm_logs(
    rows: NDArray[np.void], facts: Sequence[ArmFacts], laws: tuple[str, ...]
) -> dict[str, ArmLog]:
    """Return the logs of arms from cycle records, by name.

    Args:
        rows: Cycle records in order, (n,).
        facts: Properties of the arms, in the order of the cell.
        laws: Names of the controllets, by the index ``owner``.

    Raises:
        LogError: If there is no record.
    """
    logs = {}
    for index, arm in enumerate(facts):
        records = rows["arms"][:, index]
        fields = {name: records[name] for name in records.dtype.names or ()}
        logs[arm.name] = arm_log_of_records(fields, rows, arm, laws)
    return logs


def arm_facts(config: CellConfig) -> list[ArmFacts]:
    """Return the properties of the arms of a cell that their logs contain."""
    return [
        ArmFacts(
            name,
            arm.robot.name,
            tuple(joint.name for joint in arm.robot.joints),
            tuple(gravity_in_base(arm.rpy).tolist()),
            # Elastic joints measure the torque between rotor and link.
            find_backend(arm.backend).torques_include_rotors and not arm.transmission.is_elastic,
        )
        for name, arm in config.arms.items()
    ]
