# SPDX-License-Identifier: Apache-2.0
"""What can be known of a running cell: states, rows, reports, timing, events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.exceptions import LoopError, LoopTimeout, UnknownName
from multipanda_py.loop.events import Event, LoopEvent
from multipanda_py.loop.mailbox import ROWS, Mailbox, Word
from multipanda_py.loop.runner import InlineRunner, Runner
from multipanda_py.loop.statistics import LoopStatistics, summarise
from multipanda_py.pose import Pose
from multipanda_py.state import ARM_RECORD, ArmSnapshot

SILENT = 0.05
"""Silence of the loop from which on nothing is handed to it that nobody waits for [s]."""


class CellReadout(ABC):
    """Read a cell's mailbox; nothing here changes anything.

    Args:
        config: The checked cell file.
    """

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        self.specs: list[InstanceSpec] = instance_specs(config)
        self._arm_index = {name: index for index, name in enumerate(config.arms)}
        self._index = {spec.name: spec.index for spec in self.specs}
        self._movable = [name for name, thing in config.objects.items() if thing.mass > 0]
        self._events_seen = 0
        self._mailbox: Mailbox | None = None
        self._runner: Runner | None = None
        self._started_ns = 0

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""

    def silence(self) -> float:
        """Return the time since the loop began its newest cycle [s]; 0 for an inline cell."""
        if self._mailbox is None or isinstance(self._runner, InlineRunner):
            return 0.0
        beat = self._mailbox.words[Word.LOOP_HEARTBEAT] or self._started_ns
        return (time.monotonic_ns() - beat) * 1e-9

    def silence_reason(self) -> str:
        """Say that the loop stands still, and what its arms do meanwhile; empty if it runs."""
        silence = self.silence()
        if silence < SILENT:
            return ""
        text = f"the loop has not run for {silence:.2f} s (allowed {SILENT:g} s)"
        real = [name for name, arm in self.config.arms.items() if arm.backend == "franka"]
        if not real:
            return f"{text}: simulated arms stand still with it"
        return (
            f"{text}: the drivers of {', '.join(real)} have brought their torques to zero and "
            "ended the motions; the robots keep their posture, recover them when the loop runs"
        )

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return tuple(self.config.arms)

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active instances, holds included."""
        flags = self._box().active
        return tuple(spec.name for spec in self.specs if flags[spec.index])

    def spec(self, name: str) -> InstanceSpec:
        """Return what an instance is made of.

        Raises:
            UnknownName: If it does not exist.
        """
        if name not in self._index:
            raise UnknownName("controllet", name, list(self._index))
        return self.specs[self._index[name]]

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm.

        Raises:
            LoopError: If the loop has not run yet.
        """
        box, index = self._box(), self._arm_index[self._arm(arm)]
        if not box.words[Word.ROWS]:
            self._newest()
        latest = (box.words[Word.ROWS] - 1) % ROWS
        record = box.rows["arms"][latest, index].copy()
        fields = {
            name: record[name]
            for name in ARM_RECORD.fields or ()
            if name not in ("gripper", "owner", "fault")
        }
        fault = int(record["fault"])
        return ArmSnapshot(
            name=arm,
            time=float(box.rows["time"][latest]),
            owner=self.specs[int(record["owner"])].name,
            fault=Event(fault).name.lower() if fault else "",
            **fields,
        )

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of the tool in the base of its arm."""
        state = self.state(arm)
        return Pose(state.position_ee_in_base, state.rotation_ee_in_base)

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable things in the world."""
        return {
            name: Pose.from_quaternion(p[:3], [*p[4:], p[3]])
            for name, p in zip(self._movable, self._newest()["objects"])
        }

    def report(self, name: str) -> dict[str, float]:
        """Return what a controllet reports of its last cycle, by name."""
        spec = self.spec(name)
        values = self._newest()["reports"][spec.index]
        return {title: float(value) for title, value in zip(spec.law.report_names, values)}

    def row(self) -> NDArray[np.void]:
        """Return a copy of the newest row: the cycle's times and every arm's state."""
        return self._newest()

    def rows(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles so far, and copies of the rows after the first ``since``.

        The loop keeps the last few thousand rows; what is older is left out.
        """
        box = self._box()
        total = box.words[Word.ROWS]
        first = max(since, total - ROWS + 64)
        return total, box.rows[np.arange(first, total) % ROWS]

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return how well the last cycles kept their time."""
        total = self._box().words[Word.ROWS]
        return summarise(self.rows(max(0, total - cycles))[1])

    def events(self) -> list[LoopEvent]:
        """Return the loop's reports since the last call."""
        self._events_seen, found = self._box().events_since(self._events_seen)
        return found

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell, as fast as the machine can."""
        self.check()
        if self._runner is not None:
            self._runner.step(cycles)

    def wait(self, condition: Callable[[], bool], timeout: float, what: str = "condition") -> None:
        """Let the loop run until a condition holds.

        Args:
            condition: Asked again every few milliseconds (or every cycle of an inline cell).
            timeout: World time for an inline cell, else wall time [s].
            what: Named in the error.

        Raises:
            LoopTimeout: If it does not hold in time.
        """
        if isinstance(self._runner, InlineRunner):
            for _ in range(round(timeout * self.config.cell.rate)):
                if condition():
                    return
                self.step()
        else:
            deadline = time.monotonic() + timeout
            while time.monotonic() < deadline:
                if condition():
                    return
                self.check()
                time.sleep(2e-3)
        if not condition():
            raise LoopTimeout(f"{what} did not come about within {timeout:g} s")

    def _newest(self) -> NDArray[np.void]:
        box = self._box()
        total = box.words[Word.ROWS]
        if not total:
            if isinstance(self._runner, InlineRunner):
                self._runner.step(1)
                return self._newest()
            self.wait(lambda: box.words[Word.ROWS] > 0, 5.0, "the first cycle")
        row: NDArray[np.void] = box.rows[(box.words[Word.ROWS] - 1) % ROWS].copy()
        return row

    def _box(self) -> Mailbox:
        if self._mailbox is None:
            raise LoopError("the cell is not started")
        return self._mailbox

    def _arm(self, name: str) -> str:
        if name not in self._arm_index:
            raise UnknownName("arm", name, self.arms)
        return name
