# SPDX-License-Identifier: Apache-2.0
"""A real arm that goes through motions one after another, and is recorded by its loop's rows."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.sections import ControlletConfig
from multipanda_py.exceptions import (
    ConfigurationError,
    LoopError,
    MultipandaError,
    PlanRejected,
    TargetRejected,
    ValidationRefused,
)
from multipanda_py.identification.paired.motions import (
    FASTEST,
    STREAMED,
    LawMotion,
    PairMotion,
    law_section,
)
from multipanda_py.identification.paired.recording import RATE, Side, side_of
from multipanda_py.identification.validation.approach_paths import SLOW, THERE, TO_START, fault_of
from multipanda_py.identification.validation.task import LAW
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.realtime.recording.record_columns import log_of_rows
from multipanda_py.realtime.system.priority import without_collections
from multipanda_py.state import Vector

AT_START = 0.1
"""How far an arm that stands by may be from where motions were checked against it [rad, m]."""
ELSEWHERE = 0.2
"""From the end of a motion, where no arm is that sags or rubs, but one that stopped [rad, m]."""
LONGEST_GAP = 0.02
"""Between states that a robot sent [s]; what is in between is on a straight line."""
MOST_BLOCKED = 3
"""Motions one after another to whose begin there is no way, before somebody has to look."""
_RESTS, _EACH, _TAKEN, _LOOK, _LONGEST = 10.0, 0.01, 0.5, 5e-4, 10.0
_PER_MOTION, _TRIES = 10.0, 5
_T = TypeVar("_T")


class RealPlant:
    """Have one arm of a cell go through motions; a context in which the cell runs.

    Its arms are connected once, by this process's loop alone. Between motions the arm goes to the
    next begin on ways that are clear of its own links, of the other arms, where they are measured,
    and of the things of the cell file. Arms that do not move hold. Whatever ends it, the arms hold
    before the connection ends.

    Args:
        config: Of the cell; laws are its own.
        arm: Name of the arm that moves.
        law: By which it does motions.
        count: How many these are, to say before.
        say: Told what is about to move.

    Raises:
        ConfigurationError: If the cell's rules refuse it.
    """

    def __init__(
        self,
        config: CellConfig,
        arm: str,
        law: str,
        count: int,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        laws = {
            TO_START: ControlletConfig.model_validate({"type": "joint_trajectory"}),
            LAW: ControlletConfig.model_validate(law_section(law)),
        }
        settings = config.cell.model_copy(update={"placement": "process", "viewer": False})
        changes = {"cell": settings, "controllets": laws, "active": []}
        self._config = config.model_copy(update=changes)
        faults: Faults = []
        check_cell(self._config, faults)
        if faults:
            raise ConfigurationError(*faults)
        self._arm, self._law, self._count, self._say = arm, law, count, say
        self._cell: Cell | None = None
        self._blocked = 0

    def __enter__(self) -> Self:
        """Say that arms will move, and connect them.

        Raises:
            ValidationRefused: If an arm that stands by is not where motions were checked against.
        """
        arm, cell = self._arm, Cell(self._config)
        others = [name for name in self._config.arms if name != arm]
        about = max(1.0, self._count * _PER_MOTION / 60.0)
        beside = f"; {', '.join(others)} {'hold' if others[1:] else 'holds'}" if others else ""
        self._say(
            f"REAL ARMS MOVE: {arm} of {self._config.cell.name} goes through {self._count} random "
            f"motions all over its workspace, at up to {100 * FASTEST:.0f} % of its speed, for "
            f"{about:.0f} minutes or so{beside}. Keep out of reach, a hand on the stop"
        )
        try:
            cell.start()
            self._cell = cell
            check_standing(self._config, arm, {name: cell.state(name).q for name in cell.arms})
            if fault := fault_of(cell):
                raise LoopError(f"{fault}: recover it first")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Have all arms hold, and let them go."""
        cell, self._cell = self._cell, None
        if cell is not None:
            with suppress(MultipandaError):
                cell.hold()
            cell.close()

    def record(self, motion: PairMotion) -> Side:
        """Go to the begin of a motion and through it, and return what was measured.

        Raises:
            PlanRejected: If there is no clear way to its begin; the arm has not moved.
            MultipandaError: If the arm or its connection failed, it did not take the motion, or
                stopped on its way.
        """
        cell = self._cell
        if cell is None:
            raise LoopError("the plant is not connected")
        try:
            return self._done(cell, motion)
        except PlanRejected:
            raise
        except MultipandaError as error:
            raise explained(cell, error) from None

    def _done(self, cell: Cell, motion: PairMotion) -> Side:
        """Go to the begin of a motion and through it."""
        task = LawMotion(self._arm, motion.points, self._law)
        n = cell.state(self._arm).q.size
        begin, end = motion.points[0, 1 : 1 + n], motion.points[-1, 1 : 1 + n]
        self._go(cell, begin)
        cell.switch([f"{self._arm}/{LAW}"], strictness="force_auto")
        with without_collections():
            rows, told = self._through(cell, task)
        log = self._log(rows, told)
        away = float(np.abs(cell.state(self._arm).q - end).max())
        if away > ELSEWHERE:
            raise LoopError(f"stopped {away:.2f} rad from the end: is something in its way?")
        return side_of(log, motion.name)

    def _go(self, cell: Cell, begin: Vector) -> None:
        """Go to where a motion begins, touching nothing."""
        cell.switch([f"{self._arm}/{TO_START}"], strictness="force_auto")
        self._until(cell, lambda: self._rests(cell), "it rests")
        if fault := fault_of(cell):
            raise LoopError(fault)
        try:
            if np.abs(cell.state(self._arm).q - begin).max() > THERE:
                plan = cell.plan({self._arm: begin})
                ends = self._told(cell, lambda: cell.begin_move(plan))
                self._until(
                    cell,
                    lambda: cell.time > ends and cell.has_ended(plan),
                    "it is where the motion begins",
                    plan.duration,
                )
        except PlanRejected as error:
            self._blocked += 1
            if self._blocked >= MOST_BLOCKED:
                raise LoopError(
                    f"no way to the begin of {self._blocked} motions one after another: {error}"
                ) from None
            raise
        self._blocked = 0
        self._until(cell, lambda: self._rests(cell), "it rests")

    def _rests(self, cell: Cell) -> bool:
        state = cell.state(self._arm)
        return bool(np.abs(state.dq).max() < SLOW) or bool(state.fault)

    def _through(self, cell: Cell, task: LawMotion) -> tuple[NDArray[np.void], float]:
        """Give the law the motion; return the rows since then, and the cell's time of that."""
        seen, _ = cell.rows(10**15)
        parts = list[NDArray[np.void]]()
        begin = self._told(cell, lambda: self._begun(cell, task))
        taken = now = 0.0
        while now < task.seconds:
            now = self._later(cell, begin + now + (_EACH if self._law == STREAMED else _TAKEN))
            now -= begin
            if self._law == STREAMED:
                task.aim(cell, now)
            if now - taken >= _TAKEN or now >= task.seconds:
                seen, rows = cell.rows(seen)
                parts.append(rows)
                taken = now
            if fault := fault_of(cell):
                raise LoopError(fault)
        return np.concatenate(parts), begin

    @staticmethod
    def _begun(cell: Cell, task: LawMotion) -> float:
        """Give the law the begin of a motion; return the cell's time of that."""
        begin = cell.time
        task.aim(cell, 0.0)
        return begin

    def _told(self, cell: Cell, tell: Callable[[], _T]) -> _T:
        """Tell an arm at rest something; a loop that was late just now is told again."""
        for _ in range(_TRIES):
            with suppress(TargetRejected):
                return tell()
            if fault := fault_of(cell):
                raise LoopError(fault)
            self._later(cell, cell.time + _EACH)
        return tell()

    def _until(
        self, cell: Cell, condition: Callable[[], bool], what: str, longer: float = 0.0
    ) -> None:
        """Wait by the time of the cell, which on a machine that is late goes on late, too."""
        limit = cell.time + _RESTS + longer
        while not condition():
            if cell.time > limit:
                raise LoopError(f"waited {_RESTS + longer:.0f} s until {what}")
            self._later(cell, cell.time + _EACH)

    def _later(self, cell: Cell, until: float) -> float:
        """Return the cell's time once it is later than another one [s]."""
        limit = clock.monotonic() + _LONGEST
        while (now := cell.time) < until:
            cell.check()
            if clock.monotonic() > limit:
                raise LoopError(f"the cell's time did not go on for {_LONGEST:g} s")
            clock.sleep(_LOOK)
        return now

    def _log(self, rows: NDArray[np.void], told: float) -> ArmLog:
        """Return rows as the log of the arm, at even times since it was told.

        Raises:
            LoopError: If states are missing.
        """
        log = log_of_rows(rows, self._config).arms[self._arm]
        time = log.time - log.time[0] + float(rows["time"][0]) - told
        gaps = np.diff(time)
        if len(gaps) < 2 or gaps.max() > LONGEST_GAP:
            raise LoopError(
                f"no states for {1e3 * (gaps.max() if len(gaps) else np.inf):.0f} ms, allowed "
                f"{1e3 * LONGEST_GAP:.0f} ms"
            )
        return even(log, time)


def explained(cell: Cell, error: MultipandaError) -> MultipandaError:
    """Return an error with the fault that nobody has told yet: that there is one does not help."""
    faults: list[str] = []
    with suppress(MultipandaError):  # a loop that is gone has no more to say
        faults = [" ".join(str(one).split()) for one in cell.events() if one.event.is_fault]
    return LoopError(f"{error}: {faults[0]}") if faults else error


def check_standing(config: CellConfig, arm: str, postures: Mapping[str, Vector]) -> None:
    """Refuse arms that stand by elsewhere than where motions of one were checked against them.

    Args:
        config: Of the cell.
        arm: Which moves.
        postures: Of all arms, as measured, (n,) each [rad, m].

    Raises:
        ValidationRefused: With the first that does.
    """
    for name in (other for other in config.arms if other != arm):
        away = float(np.abs(postures[name] - config.arms[name].q_start).max())
        if away > AT_START:
            raise ValidationRefused(
                f"{name} stands {away:.2f} rad from its q_start, where motions of {arm} were "
                f"checked against it; allowed {AT_START:g}"
            )


def even(log: ArmLog, time: Vector) -> ArmLog:
    """Return positions, velocities, torques and references of a log at even times.

    Args:
        log: Of an arm.
        time: Of its samples, (n,) [s].
    """
    first = np.ceil(time[0] * RATE - 1e-6)
    grid = np.arange(first, np.floor(time[-1] * RATE + 1e-6) + 1.0) / RATE
    found: dict[str, NDArray[np.float64]] = {"time": grid}
    for name in ("q", "dq", "tau", "target_joint"):
        if name in log.names:
            flat = log[name].reshape(len(log), -1)
            columns = [np.interp(grid, time, column) for column in flat.T]
            found[name] = np.stack(columns, axis=1).reshape(len(grid), *log[name].shape[1:])
    return replace(log, tau_commanded=None).with_columns(found)
