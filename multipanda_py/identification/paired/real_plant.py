# SPDX-License-Identifier: Apache-2.0
"""Execution and recording of a sequence of motions on a real arm."""

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
    ValidationRejected,
)
from multipanda_py.identification.paired.motions import (
    MAX_SPEED_FRACTION,
    STREAMED_CONTROLLET,
    LawMotion,
    PairMotion,
    law_section,
)
from multipanda_py.identification.paired.recording import RATE, Side, side_of
from multipanda_py.identification.validation.task import (
    CONTROLLET_NAME,
    END_TOLERANCE,
    MAX_END_DISTANCE,
    MAX_START_SPEED,
    TO_START,
    fault_of,
)
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.realtime.recording.log_reader import log_of_rows
from multipanda_py.realtime.system.scheduling import without_collections
from multipanda_py.state import Vector

MAX_START_DISTANCE = 0.1
"""Maximum distance of a stationary arm from the configuration used in collision
checks [rad, m]."""
MAX_GAP = 0.02
"""Maximum time between two recorded states [s]. States in between are interpolated linearly."""
MAX_BLOCKED = 3
"""Number of consecutive motions without a path to their start after which the recording stops."""
_WAIT_TIMEOUT = 10.0  # Maximum wait until the arm is at rest or at its goal [s].
_STALL_TIMEOUT = 10.0  # Maximum wall time in which the time of the cell may stand still [s].
_TARGET_PERIOD = 0.01  # Period of streamed targets and of checks [s].
_READ_PERIOD = 0.5  # Period of reading cycle records [s].
_POLL_PERIOD = 5e-4  # Period of reading the time of the cell [s].
_MOTION_DURATION = 10.0  # Duration of a motion in the estimate of the total time [s].
_MAX_RETRIES = 5  # Number of retries of a rejected command.
_T = TypeVar("_T")


class RealPlant:
    """Context manager that runs a cell and executes motions on one of its arms.

    Between motions, the arm moves to the next start on paths that avoid collisions with itself,
    with the other arms and with objects of the cell file. The other arms hold. On exit, all arms
    hold and disconnect.

    Args:
        config: Configuration of the cell. Its controllets are not used.
        arm: Name of the moving arm.
        controllet: Controllet that executes the motions.
        count: Number of motions, for the warning before the start.
        log: Callback that receives a warning before the arm moves.

    Raises:
        ConfigurationError: If the cell is invalid.
    """

    def __init__(
        self,
        config: CellConfig,
        arm: str,
        controllet: str,
        count: int,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        controllets = {
            TO_START: ControlletConfig.model_validate({"type": "joint_trajectory"}),
            CONTROLLET_NAME: ControlletConfig.model_validate(law_section(controllet)),
        }
        settings = config.cell.model_copy(update={"placement": "process", "viewer": False})
        changes = {"cell": settings, "controllets": controllets, "active": []}
        self._config = config.model_copy(update=changes)
        faults: Faults = []
        check_cell(self._config, faults)
        if faults:
            raise ConfigurationError(*faults)
        self._arm, self._controllet, self._count, self._report = arm, controllet, count, log
        self._cell: Cell | None = None
        self._blocked = 0

    def __enter__(self) -> Self:
        """Warn that arms will move, and connect them.

        Raises:
            ValidationRejected: If another arm is far from its start configuration.
            LoopError: If an arm has a fault.
        """
        arm, cell = self._arm, Cell(self._config)
        others = [name for name in self._config.arms if name != arm]
        about = max(1.0, self._count * _MOTION_DURATION / 60.0)
        beside = f"; {', '.join(others)} {'hold' if others[1:] else 'holds'}" if others else ""
        self._report(
            f"REAL ARMS MOVE: {arm} of {self._config.cell.name} executes {self._count} random "
            f"motions in its whole workspace at up to {100 * MAX_SPEED_FRACTION:.0f} % of its "
            f"speed for "
            f"about {about:.0f} minutes{beside}. Stay out of reach and keep the emergency stop at "
            "hand."
        )
        try:
            cell.start()
            self._cell = cell
            check_standing(self._config, arm, {name: cell.state(name).q for name in cell.arms})
            if fault := fault_of(cell):
                raise LoopError(f"{fault}. Recover the arm first.")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Let all arms hold, and disconnect them."""
        cell, self._cell = self._cell, None
        if cell is not None:
            with suppress(MultipandaError):
                cell.hold()
            cell.close()

    def record(self, motion: PairMotion) -> Side:
        """Move to the start of a motion, execute it and return the recording.

        Raises:
            PlanRejected: If there is no collision-free path to the start. The arm has not moved.
            MultipandaError: If the arm or its connection fails, the motion is rejected, or the arm
                stops before the end of the motion.
        """
        cell = self._cell
        if cell is None:
            raise LoopError("the plant is not connected. Use it in a with statement.")
        try:
            return self._move_and_execute(cell, motion)
        except PlanRejected:
            raise
        except MultipandaError as error:
            raise with_fault(cell, error) from None

    def _move_and_execute(self, cell: Cell, motion: PairMotion) -> Side:
        task = LawMotion(self._arm, motion.points, self._controllet)
        n = cell.state(self._arm).q.size
        start, end = motion.points[0, 1 : 1 + n], motion.points[-1, 1 : 1 + n]
        self._go(cell, start)
        cell.switch([f"{self._arm}/{CONTROLLET_NAME}"], strictness="force_auto")
        with without_collections():
            rows, command_time = self._execute_task(cell, task)
        log = self._equidistant_log(rows, command_time)
        away = float(np.abs(cell.state(self._arm).q - end).max())
        if away > MAX_END_DISTANCE:
            raise LoopError(
                f"the arm stopped {away:.2f} rad from the end of the motion. Check for obstacles."
            )
        return side_of(log, motion.name)

    def _go(self, cell: Cell, start: Vector) -> None:
        cell.switch([f"{self._arm}/{TO_START}"], strictness="force_auto")
        self._wait_for(cell, lambda: self._rests(cell), "the arm is at rest")
        if fault := fault_of(cell):
            raise LoopError(fault)
        try:
            if np.abs(cell.state(self._arm).q - start).max() > END_TOLERANCE:
                plan = cell.plan({self._arm: start})
                ends = self._send_with_retries(cell, lambda: cell.start_motion(plan))
                self._wait_for(
                    cell,
                    lambda: cell.time > ends and cell.is_finished(plan),
                    "the arm is at the start of the motion",
                    plan.duration,
                )
        except PlanRejected as error:
            self._blocked += 1
            if self._blocked >= MAX_BLOCKED:
                raise LoopError(
                    f"no path to the start of {self._blocked} motions one after another: {error}"
                ) from None
            raise
        self._blocked = 0
        self._wait_for(cell, lambda: self._rests(cell), "the arm is at rest")

    def _rests(self, cell: Cell) -> bool:
        state = cell.state(self._arm)
        return bool(np.abs(state.dq).max() < MAX_START_SPEED) or bool(state.fault)

    def _execute_task(self, cell: Cell, task: LawMotion) -> tuple[NDArray[np.void], float]:
        """Execute a task; return its cycle records and the cell time of the first target [s]."""
        position, _ = cell.records(10**15)
        parts = list[NDArray[np.void]]()
        start = self._send_with_retries(cell, lambda: self._send_first_target(cell, task))
        taken = now = 0.0
        while now < task.seconds:
            now = self._wait_until_cell_time(
                cell,
                start
                + now
                + (_TARGET_PERIOD if self._controllet == STREAMED_CONTROLLET else _READ_PERIOD),
            )
            now -= start
            if self._controllet == STREAMED_CONTROLLET:
                task.set_targets(cell, now)
            if now - taken >= _READ_PERIOD or now >= task.seconds:
                position, rows = cell.records(position)
                parts.append(rows)
                taken = now
            if fault := fault_of(cell):
                raise LoopError(fault)
        return np.concatenate(parts), start

    @staticmethod
    def _send_first_target(cell: Cell, task: LawMotion) -> float:
        """Send the first target of a motion and return the cell time before sending [s]."""
        start = cell.time
        task.set_targets(cell, 0.0)
        return start

    def _send_with_retries(self, cell: Cell, command: Callable[[], _T]) -> _T:
        for _ in range(_MAX_RETRIES):  # A late cycle can cause a rejection.
            with suppress(TargetRejected):
                return command()
            if fault := fault_of(cell):
                raise LoopError(fault)
            self._wait_until_cell_time(cell, cell.time + _TARGET_PERIOD)
        return command()

    def _wait_for(
        self, cell: Cell, condition: Callable[[], bool], description: str, extra: float = 0.0
    ) -> None:
        limit = cell.time + _WAIT_TIMEOUT + extra  # [s]
        while not condition():
            if cell.time > limit:
                raise LoopError(
                    f"timeout of {_WAIT_TIMEOUT + extra:.0f} s while waiting until {description}"
                )
            self._wait_until_cell_time(cell, cell.time + _TARGET_PERIOD)

    def _wait_until_cell_time(self, cell: Cell, cell_time: float) -> float:
        """Wait until a cell time [s], and return the present cell time [s]."""
        limit = clock.monotonic() + _STALL_TIMEOUT
        while (now := cell.time) < cell_time:
            cell.check()
            if clock.monotonic() > limit:
                raise LoopError(
                    f"cell: its time did not advance for {_STALL_TIMEOUT:g} s, because its loop "
                    "is blocked. Start the cell again"
                )
            clock.sleep(_POLL_PERIOD)
        return now

    def _equidistant_log(self, rows: NDArray[np.void], command_time: float) -> ArmLog:
        """Return a log at 1000 samples per second with times since the first target."""
        log = log_of_rows(rows, self._config).arms[self._arm]
        time = log.time - log.time[0] + float(rows["time"][0]) - command_time
        gaps = np.diff(time)
        if len(gaps) < 2 or gaps.max() > MAX_GAP:
            raise LoopError(
                f"no states for {1e3 * (gaps.max() if len(gaps) else np.inf):.0f} ms, allowed "
                f"{1e3 * MAX_GAP:.0f} ms"
            )
        return resampled(log, time)


def with_fault(cell: Cell, error: MultipandaError) -> MultipandaError:
    """Add the first fault that the cell has reported to the message of an error."""
    faults: list[str] = []
    with suppress(MultipandaError):  # If the loop has ended, its events cannot be read.
        faults = [" ".join(str(one).split()) for one in cell.events() if one.event.is_fault]
    return LoopError(f"{error}: {faults[0]}") if faults else error


def check_standing(config: CellConfig, arm: str, configurations: Mapping[str, Vector]) -> None:
    """Check that all other arms stand in the configurations that collision checks assume.

    Args:
        config: Configuration of the cell.
        arm: Name of the moving arm.
        configurations: Measured joint positions of all arms by name, (n,) each [rad, m].

    Raises:
        ValidationRejected: If an arm is too far from its start configuration.
    """
    for name in (other for other in config.arms if other != arm):
        away = float(np.abs(configurations[name] - config.arms[name].q_start).max())
        if away > MAX_START_DISTANCE:
            raise ValidationRejected(
                f"{name} is {away:.2f} rad from its q_start, which the collision checks of {arm} "
                f"assume; allowed {MAX_START_DISTANCE:g} rad. Move the arm to its q_start."
            )


def resampled(log: ArmLog, time: Vector) -> ArmLog:
    """Return positions, velocities, torques and references of a log at 1000 samples per second.

    The values are interpolated linearly.

    Args:
        log: Log of an arm.
        time: Times of the samples of ``log``, from the start of the motion, (n,) [s].
    """
    first = np.ceil(time[0] * RATE - 1e-6)
    grid = np.arange(first, np.floor(time[-1] * RATE + 1e-6) + 1.0) / RATE
    result: dict[str, NDArray[np.float64]] = {"time": grid}
    for name in ("q", "dq", "tau", "target_joint"):
        if name in log.names:
            flat = log[name].reshape(len(log), -1)
            columns = [np.interp(grid, time, column) for column in flat.T]
            result[name] = np.stack(columns, axis=1).reshape(len(grid), *log[name].shape[1:])
    return replace(log, tau_commanded=None).with_columns(result)
