# SPDX-License-Identifier: Apache-2.0
"""Monitoring of the residuals of all arms of a cell, from logs or from a running cell."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_identified
from multipanda_py.exceptions import MonitorRejected
from multipanda_py.identification.monitor.arm_monitor import (
    QUANTITIES,
    ArmMonitor,
    MonitoredLog,
    residual_slices,
)
from multipanda_py.identification.monitor.band import ArmBand, Band
from multipanda_py.identification.monitor.load_and_friction import LoadAndFriction
from multipanda_py.realtime.cycle_record import RecordReader
from multipanda_py.realtime.recording.arm_log import ArmLog, arm_facts, arm_logs
from multipanda_py.realtime.recording.topics import CELL_FILE, CellPlan
from multipanda_py.realtime.running_cell import find_running
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import load_of
from multipanda_py.state import Vector

ALARM_DELAY = 0.1
"""Time that a residual has to be outside its band before an alarm [s]."""
ALARM_END_DELAY = 1.0
"""Time that a residual has to be inside its band before its alarm ends [s]."""


@dataclass(frozen=True)
class Alarm:
    """Alarm of a residual that has left its band, the range of its values in good runs.

    Attributes:
        time: Robot time of the alarm, :data:`ALARM_DELAY` after the residual left its band [s].
        arm: Name of the arm.
        quantity: Name of the residual kind, see :data:`.QUANTITIES`.
        axis: Name of the joint or axis.
        value: Residual at the time of the alarm.
        low: Lower bound of the band.
        high: Upper bound of the band.
        unit: Unit of the value and the bounds.
    """

    time: float
    arm: str
    quantity: str
    axis: str
    value: float
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        return (
            f"{self.arm}: {self.quantity} of {self.axis} is {self.value:.3g}, in good runs "
            f"[{self.low:.3g}, {self.high:.3g}] {self.unit}"
        )


class BandMonitor:
    """Monitor that raises an alarm if a residual of one arm leaves the range of good runs.

    Args:
        arm: Name of the arm.
        band: Residual ranges in good runs, also available as attribute.

    Attributes:
        alarms: All alarms in chronological order.
        now: Active alarms by quantity and axis, separated by a space.
        use: Maximum distance of the residuals of each kind from the middle of their range, divided
            by its half width, by name. :meth:`forget` clears it.
        sample_count: Number of evaluated samples.

    Thread: used by one thread at a time.
    """

    def __init__(self, arm: str, band: ArmBand) -> None:
        self._arm, self.band = arm, band
        self._at = residual_slices(len(band.joints))
        self._names: list[tuple[str, str, str]] = []
        for quantity in QUANTITIES:
            units = quantity.unit.split(", ")
            labels = quantity.labels(band.joints)
            for k, axis in enumerate(labels):
                unit = units[k * len(units) // len(labels)]
                self._names.append((quantity.name, axis, unit))
        width = len(self._names)
        # Times at which each residual left its band and returned into it [s], else nan.
        self._outside = np.full(width, np.nan)
        self._inside = np.full(width, np.nan)
        self.alarms: list[Alarm] = []
        self.now: dict[str, Alarm] = {}
        self.use: dict[str, float] = {}
        self.sample_count = 0

    def forget(self) -> None:
        """Clear the residual maxima in :attr:`use`. Active alarms are kept."""
        self.use = {}

    def check(self, monitored: MonitoredLog) -> list[Alarm]:
        """Compare the residuals of the next chunk with their ranges, and return new alarms.

        Args:
            monitored: Chunk of the log with the twin, from :meth:`.ArmMonitor.follow`.
        """
        raised: list[Alarm] = []
        low, high = self.band.low, self.band.high
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        rows = monitored.residuals[monitored.evaluated]
        times = monitored.time[monitored.evaluated]
        if not len(rows):
            return raised
        self.sample_count += len(rows)
        with np.errstate(invalid="ignore"):
            used = np.abs(rows - middle) / half
        largest_use = np.nanmax(np.where(np.isfinite(used), used, 0.0), axis=0)
        for name, index in self._at.items():
            if np.isfinite(low[index]).any() and np.isfinite(rows[0, index]).any():
                self.use[name] = max(self.use.get(name, 0.0), float(largest_use[index].max()))
        may = np.flatnonzero(
            (largest_use > 1.0) | np.isfinite(self._outside) | np.isfinite(self._inside)
        )
        for k in may.tolist():
            raised += self._new_alarms(k, times, rows[:, k], used[:, k])
        raised.sort(key=lambda alarm: alarm.time)
        self.alarms += raised
        return raised

    def _new_alarms(
        self, index: int, times: Vector, values: Vector, used_fraction: Vector
    ) -> list[Alarm]:
        raised = []
        quantity, axis, unit = self._names[index]
        name = f"{quantity} {axis}"
        for time, value, fraction in zip(times.tolist(), values.tolist(), used_fraction.tolist()):
            if fraction > 1.0:  # 0 is the middle of the band, 1 its bounds.
                self._inside[index] = np.nan
                if np.isnan(self._outside[index]):
                    self._outside[index] = time
                if name not in self.now and time - self._outside[index] >= ALARM_DELAY:
                    alarm = Alarm(
                        time, self._arm, quantity, axis, value,
                        float(self.band.low[index]), float(self.band.high[index]), unit,
                    )  # fmt: skip
                    self.now[name] = alarm
                    raised.append(alarm)
                continue
            self._outside[index] = np.nan
            if name in self.now:
                if np.isnan(self._inside[index]):
                    self._inside[index] = time
                if time - self._inside[index] >= ALARM_END_DELAY:
                    del self.now[name]
                    self._inside[index] = np.nan
        return raised


class CellMonitor:
    """Digital-twin monitor of the arms of a cell.

    Args:
        config: Description of the cell with payloads. Arms with the key ``identified`` use
            identified parameters.
        band: Residual ranges in good runs, outside which alarms are raised, or None for no alarms.
        arms: Names of the monitored arms. If empty, all arms are monitored.
        update: True to estimate payload and friction online.

    Attributes:
        arms: Descriptions of the monitored arms, by name.
        watches: Monitors of the residual ranges by arm name. Empty if ``band`` is None.
        updates: Online estimators of payload and friction by arm, empty without ``update``.
        last: Last evaluated chunk by arm.

    Raises:
        MonitorRejected: If the band lacks one of the arms, or was learnt with other joints.

    Thread: used by one thread at a time.
    """

    def __init__(
        self,
        config: CellConfig,
        band: Band | None = None,
        arms: tuple[str, ...] = (),
        update: bool = False,
    ) -> None:
        self.arms: dict[str, ArmDescription] = {}
        self.watches: dict[str, BandMonitor] = {}
        self.updates: dict[str, LoadAndFriction] = {}
        self.last: dict[str, MonitoredLog] = {}
        self._monitors: dict[str, ArmMonitor] = {}
        for name in arms or tuple(config.arms):
            settings = config.arms[name]
            arm = describe_identified(name, settings)
            controller_model = describe_arm(name, settings) if settings.identified else None
            self.arms[name] = arm
            load = load_of(settings.settings)
            self._monitors[name] = ArmMonitor(arm, load, controller_model)
            if update:
                self.updates[name] = LoadAndFriction(arm, load)
            if band is not None:
                joints = [joint.name for joint in arm.robot.joints]
                self.watches[name] = BandMonitor(name, band.of(name, joints))

    @property
    def skipped(self) -> int:
        """Number of samples of all arms that were invalid or made a twin diverge."""
        return sum(monitor.skipped for monitor in self._monitors.values())

    @property
    def alarms(self) -> list[Alarm]:
        """All alarms of all arms in chronological order."""
        alarms = [alarm for watch in self.watches.values() for alarm in watch.alarms]
        return sorted(alarms, key=lambda alarm: alarm.time)

    def follow(self, logs: Mapping[str, ArmLog]) -> list[Alarm]:
        """Run the twins along the next chunk of all logs, and return new alarms.

        Args:
            logs: Logs by arm name. Each continues the log of the last call.

        Raises:
            MonitorRejected: If a log is missing or does not match its arm.
        """
        if lacking := [name for name in self._monitors if name not in logs]:
            raise MonitorRejected(
                f"logs: got {', '.join(logs)}, but {', '.join(lacking)} is missing. Add its log."
            )
        raised: list[Alarm] = []
        for name, monitor in self._monitors.items():
            result = monitor.follow(logs[name])
            if result is None:
                continue
            self.last[name] = result
            if name in self.updates:
                self.updates[name].add(result)
            if name in self.watches:
                raised += self.watches[name].check(result)
        return raised

    def mismatches(self) -> list[str]:
        """Return a message for every arm whose last chunk does not match its description."""
        result = (last.mismatch(self.arms[name].limits.torque) for name, last in self.last.items())
        return [sentence for sentence in result if sentence]

    def lines(self) -> Iterator[str]:
        """Yield a status line for each arm.

        With a band, the largest residuals since :meth:`forget` are relative to it, and active
        alarms follow. Without a band, a line contains the largest residuals of the last chunk.
        """
        for name, monitored in self.last.items():
            start = f"{name} {monitored.time[-1]:9.1f} s"
            watch = self.watches.get(name)
            if watch is None:
                yield f"{start}  {largest(monitored)}"
                continue
            used = ", ".join(
                f"{description} {fraction:4.0%}" for description, fraction in watch.use.items()
            )
            state = "OUTSIDE: " + ", ".join(watch.now) if watch.now else "within"
            yield f"{start}  band usage: {used or 'not evaluated yet'}  {state}"

    def forget(self) -> None:
        """Reset the largest residuals that :meth:`lines` reports."""
        for watch in self.watches.values():
            watch.forget()


def largest(monitored: MonitoredLog) -> str:
    """Return the largest residual of every kind in a chunk of a log, as text."""
    joints = monitored.log.joints
    at = residual_slices(len(joints))
    rows = monitored.residuals[monitored.evaluated]
    result = []
    for quantity in QUANTITIES:
        values = rows[:, at[quantity.name]]
        if not np.isfinite(values).any():
            continue
        largest_use = np.nanmax(np.abs(values), axis=0)
        axis = int(np.argmax(largest_use))
        unit = quantity.unit.partition(",")[0]
        if quantity.axes:
            axis = int(np.argmax(largest_use[:3]))
        label = quantity.labels(joints)[axis]
        result.append(f"{quantity.name} {largest_use[axis]:.2g} {unit} ({label})")
    return ", ".join(result) or "not evaluated yet"


class LiveRows:
    """Reader of the cycle records of a cell that runs on this machine under the same user.

    Reading does not affect the loop of the cell.

    Args:
        name: Name of the cell. If empty, the only running cell is read.

    Attributes:
        plan: Description of the cell: arms, layout of the cycle records and text of the cell file.
        config: Configuration of the running cell.

    Raises:
        LoopError: If no cell is running, or several are and no name is given.
        UnknownName: If no cell with this name is running.

    Thread: used by one thread at a time.
    """

    def __init__(self, name: str = "") -> None:
        self.plan: CellPlan
        self._memory: Path
        self.plan, self._memory = find_running(name)
        self.config = CellConfig.from_dict(json.loads(self.plan.attachments[CELL_FILE]))
        fd = os.open(self._memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            ring, _ = self.plan.records.open(
                fd, [arm.name for arm in self.plan.arms], self.plan.laws
            )
        finally:
            os.close(fd)  # The memory mapping stays valid without its file descriptor.
        self._reader = RecordReader(ring)
        self._facts = arm_facts(self.config)

    @property
    def is_there(self) -> bool:
        """True while the cell runs."""
        return self._memory.exists()

    @property
    def dropped(self) -> int:
        """Number of cycle records lost because this process read too slowly."""
        return self._reader.dropped

    def pop(self) -> dict[str, ArmLog]:
        """Return the logs of the cycles since the last call, by arm. Empty without new cycles."""
        rows = self._reader.take()
        return arm_logs(rows, self._facts, self.plan.laws) if len(rows) else {}
