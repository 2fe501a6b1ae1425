# SPDX-License-Identifier: Apache-2.0
"""Say when an arm leaves the band of good runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.shadow.arm_shadow import Shadowed
from multipanda_py.shadow.band import ArmBand
from multipanda_py.shadow.quantities import QUANTITIES, places
from multipanda_py.state import Vector

PATIENCE = 0.1
"""For which a residual has to be outside before it is said [s]."""
RETURNED = 1.0
"""For which it has to be inside before it counts as back [s]."""


@dataclass(frozen=True)
class Alarm:
    """One number that has left its band.

    Attributes:
        time: When it was said, :data:`PATIENCE` after it left, in robot time [s].
        arm: Whose.
        quantity: Name of the quantity.
        axis: Name of the joint or axis.
        value: What it was then.
        low: Lower end of its band.
        high: Upper end.
        unit: Of all three.
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


class BandWatch:
    """Hold the residuals of one arm against its band.

    Args:
        arm: Its name.
        band: Of good runs; as attribute, too.

    Attributes:
        alarms: All that were raised, in their order.
        now: Names of what is outside now, ``quantity axis``, by their alarms.
        use: Of every quantity by name, how much of its band was used since :meth:`forget`: 1 at
            its end, at the worst axis.
        seen: Samples that were judged.

    Thread: one at a time.
    """

    def __init__(self, arm: str, band: ArmBand) -> None:
        self._arm, self.band = arm, band
        self._at = places(len(band.joints))
        self._names: list[tuple[str, str, str]] = []
        for quantity in QUANTITIES:
            units = quantity.unit.split(", ")
            labels = quantity.labels(band.joints)
            for k, axis in enumerate(labels):
                unit = units[k * len(units) // len(labels)]
                self._names.append((quantity.name, axis, unit))
        width = len(self._names)
        self._outside = np.full(width, np.nan)  # since when
        self._inside = np.full(width, np.nan)
        self.alarms: list[Alarm] = []
        self.now: dict[str, Alarm] = {}
        self.use: dict[str, float] = {}
        self.seen = 0

    def forget(self) -> None:
        """Begin :attr:`use` anew."""
        self.use = {}

    def look(self, shadowed: Shadowed) -> list[Alarm]:
        """Judge what came next; return what has left its band.

        Args:
            shadowed: As :meth:`.ArmShadow.follow` returns it.
        """
        raised: list[Alarm] = []
        low, high = self.band.low, self.band.high
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        rows = shadowed.residuals[shadowed.judged]
        times = shadowed.time[shadowed.judged]
        if not len(rows):
            return raised
        self.seen += len(rows)
        with np.errstate(invalid="ignore"):
            used = np.abs(rows - middle) / half
        most = np.nanmax(np.where(np.isfinite(used), used, 0.0), axis=0)
        for name, place in self._at.items():
            if np.isfinite(low[place]).any() and np.isfinite(rows[0, place]).any():
                self.use[name] = max(self.use.get(name, 0.0), float(most[place].max()))
        may = np.flatnonzero((most > 1.0) | np.isfinite(self._outside) | np.isfinite(self._inside))
        for k in may.tolist():
            raised += self._one(k, times, rows[:, k], used[:, k])
        raised.sort(key=lambda alarm: alarm.time)
        self.alarms += raised
        return raised

    def _one(self, k: int, times: Vector, values: Vector, used: Vector) -> list[Alarm]:
        """Follow one number; it is said once until it has been back for a while."""
        raised = []
        quantity, axis, unit = self._names[k]
        name = f"{quantity} {axis}"
        for time, value, share in zip(times.tolist(), values.tolist(), used.tolist()):
            if share > 1.0:
                self._inside[k] = np.nan
                if np.isnan(self._outside[k]):
                    self._outside[k] = time
                if name not in self.now and time - self._outside[k] >= PATIENCE:
                    alarm = Alarm(
                        time, self._arm, quantity, axis, value,
                        float(self.band.low[k]), float(self.band.high[k]), unit,
                    )  # fmt: skip
                    self.now[name] = alarm
                    raised.append(alarm)
                continue
            self._outside[k] = np.nan
            if name in self.now:
                if np.isnan(self._inside[k]):
                    self._inside[k] = time
                if time - self._inside[k] >= RETURNED:
                    del self.now[name]
                    self._inside[k] = np.nan
        return raised
