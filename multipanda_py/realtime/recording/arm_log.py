# SPDX-License-Identifier: Apache-2.0
"""A log as identification takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import IdentificationRefused, LogError, UnknownName
from multipanda_py.realtime.recording.measured_motion import GAP, MeasuredMotion
from multipanda_py.state import Matrix, Vector

if TYPE_CHECKING:
    import pandas as pd


JOINT_COLUMNS = ("q", "dq", "tau", "tau_commanded")
_OWN = ("time", *JOINT_COLUMNS)
_ALIKE = (
    "joints", "robot", "gravity_in_tau", "gravity_in_tau_commanded", "rotors_in_tau", "laws",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArmLog:
    """Samples of one arm with j joints at n instants; what nobody recorded is None.

    Attributes:
        arm: Its name in the cell, or in the log.
        robot: Name of its model, such as ``fr3``; None where nobody says.
        joints: Names of its joints, without the prefix of an arm, (j,).
        time: Robot time, strictly increasing, (n,) [s]. Where a log has several recordings, those
            after the first go on behind one another, whatever their clocks said.
        q: Measured positions, (n, j) [rad; m of a joint that slides].
        dq: Measured velocities, (n, j) [rad/s].
        tau: Measured joint torques, (n, j) [Nm].
        tau_commanded: What the controller commanded, (n, j) [Nm].
        gravity_in_tau: Whether the measured torques have in them what carries the arm, as
            libfranka's ``tau_J`` and all logs of this package have.
        gravity_in_tau_commanded: The same of the commanded torques. libfranka's ``tau_J_d`` and
            this package's ``tau`` have it not: the robot adds gravity by itself, and
            ``tau_commanded + g(q)`` is what motors were to give. For an arm that does not carry
            itself, what the loop adds for it is the column ``tau_gravity``.
        columns: Everything else that was recorded, by the names of ``doc/rows.md``, each (n, ...):
            ``tau_ext``, ``position_ee_in_base``, ``rotation_ee_in_base``, ``twist_ee_in_base``,
            ``wrench_ext_in_base``, ``target_pose``, ``target_joint``, ``owner``, ``fault`` ...
        laws: Names of the controllets, by the numbers in the column ``owner``.
        starts: Samples at which a recording begins, the first of them 0.
        gravity_in_base: Gravity in the arm's base, (3,) [m/s^2]; None where nobody says, which
            stands for an arm that stands upright.
        rotors_in_tau: Whether ``tau`` has in it what turns the rotors: not behind the gears.

    Raises:
        LogError: If shapes do not fit, or time does not increase.
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
                raise LogError(f"{self.arm}: {name} is {values.shape}, allowed {(n, j)}")
        for name, values in self.columns.items():
            if len(values) != n:
                raise LogError(f"{self.arm}: {name} has {len(values)} samples, allowed {n}")
        if not n:
            raise LogError(f"{self.arm}: a log without a sample")
        wrong = np.flatnonzero(~(np.diff(self.time) > 0.0))
        if len(wrong) or not np.isfinite(self.time[0]):
            at = int(wrong[0]) if len(wrong) else 0
            pair = ", ".join(f"{value:.6f}" for value in self.time[at : at + 2])
            raise LogError(
                f"{self.arm}: time has to increase from sample to sample, got {pair} s at sample "
                f"{at}: the clock was set, or rows are not in their order"
            )

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column by name, also ``q``, ``dq``, ``tau`` and ``tau_commanded``.

        Raises:
            UnknownName: If it was not recorded; lists what was.
        """
        if name not in self.names:
            raise UnknownName(f"column of {self.arm}", name, self.names)
        values: NDArray[Any] = getattr(self, name) if name in _OWN else self.columns[name]
        return values

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns that there are, ``time`` first."""
        own = [name for name in _OWN if getattr(self, name) is not None]
        return (*own, *self.columns)

    @property
    def rate(self) -> float:
        """Samples per second where there is no gap [Hz]; 0 for a single sample."""
        return 1.0 / self.period if len(self) > 1 else 0.0

    @property
    def period(self) -> float:
        """Median time between samples [s]; 0 for a single one."""
        return float(np.median(np.diff(self.time))) if len(self) > 1 else 0.0

    @property
    def duration(self) -> float:
        """From the first sample to the last [s]."""
        return float(self.time[-1] - self.time[0])

    def gaps(self, longer_than: float | None = None) -> Matrix:
        """Return where samples are missing, (m, 2): times of the sample before and after [s].

        Args:
            longer_than: Smallest gap [s]; :data:`.GAP` periods by default.
        """
        step = np.diff(self.time)
        limit = GAP * self.period if longer_than is None else longer_than
        at = np.flatnonzero(step > limit)
        return np.stack([self.time[at], self.time[at + 1]], axis=1)

    def segments(self, longer_than: float | None = None, at_least: int = 1) -> list[slice]:
        """Return the runs of samples between gaps and starts, for filters that know no gaps.

        Args:
            longer_than: As for :meth:`gaps`.
            at_least: Fewest samples of a run.
        """
        after = np.searchsorted(self.time, self.gaps(longer_than)[:, 1]).tolist()
        bounds = sorted({0, *self.starts, *after, len(self)})
        runs = [slice(begin, end) for begin, end in pairwise(bounds)]
        return [run for run in runs if run.stop - run.start >= at_least]

    def part(self, run: slice) -> ArmLog:
        """Return some samples as a log of its own; arrays are views.

        Args:
            run: Of samples; its step is at least 1.
        """
        kept = range(len(self))[run]
        starts = [max(0, -((kept.start - start) // kept.step)) for start in self.starts]
        inside = tuple(sorted({0, *(start for start in starts if start < len(kept))}))
        return self.with_columns({name: self[name][run] for name in self.names}, inside)

    def with_columns(
        self, columns: Mapping[str, NDArray[Any]], starts: tuple[int, ...] = (0,)
    ) -> ArmLog:
        """Return the same arm with other samples, ``time`` and ``q`` among them, by name."""
        return replace(
            self,
            time=columns["time"],
            q=columns["q"],
            dq=columns.get("dq"),
            tau=columns.get("tau"),
            tau_commanded=columns.get("tau_commanded"),
            columns={name: values for name, values in columns.items() if name not in _OWN},
            starts=starts,
        )

    def between(self, begin: float, end: float) -> ArmLog:
        """Return the samples from ``begin`` to before ``end`` [s, robot time]."""
        first, last = np.searchsorted(self.time, [begin, end]).tolist()
        return self.part(slice(first, last))

    def to_pandas(self) -> pd.DataFrame:
        """Return a table: ``time``, ``q1`` ... ``qj``, ``dq1`` ..., then all other columns.

        What has several numbers a sample is numbered from 1, row by row; the controllet that owns
        the arm is the column ``law``, by name.
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
    """Return several recordings of one arm as one, one behind the other.

    A recording that does not begin after the end of the one before is shifted to begin a second
    after it: simulated worlds all begin at zero. Columns that one of them lacks are left out.

    Raises:
        LogError: If they are of different arms: other joints, or torques that mean something else.
    """
    first = logs[0]
    for other in logs[1:]:
        for name in _ALIKE:
            got, allowed = getattr(other, name), getattr(first, name)
            if got != allowed:
                raise LogError(f"{first.arm}: {name} of one log is {got}, of another {allowed}")
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
    """Return an arm's log as identification takes it.

    Raises:
        IdentificationRefused: If torques were not recorded, or are without what carries the arm.
    """
    if log.tau is None:
        got = ", ".join(log.names)
        raise IdentificationRefused(f"{name}: no measured torques, only {got}")
    if not log.gravity_in_tau:
        raise IdentificationRefused(
            f"{name}: the torques lack what carries the arm, allowed as sensors measure"
        )
    own = log.gravity_in_base if gravity is None else gravity
    return MeasuredMotion(
        name, log.time, log.q, log.tau, log.dq, own, log.joints, log.starts, log.rotors_in_tau
    )
