# SPDX-License-Identifier: Apache-2.0
"""Execution of a validation task on a cell, and storage of the run in a file."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import LogError, LoopError, MultipandaError
from multipanda_py.files import open_regular, replacing
from multipanda_py.identification.validation.task import (
    CONTROLLET_NAME,
    FAST_TARGET_CYCLES,
    TARGET_CYCLES,
    PassTime,
    Task,
    fault_of,
    go_to_start,
)
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.realtime.recording.arm_log import JOINT_COLUMNS
from multipanda_py.realtime.recording.log_reader import log_of_rows
from multipanda_py.realtime.system.scheduling import without_collections
from multipanda_py.state import Matrix, Vector

_STEPS_PER_READ = 100
"""Number of target updates between two reads of the cycle records."""
_STALL_TIMEOUT = 10.0  # Maximum wall time in which the time of the cell may stand still [s].
_POLL_PERIOD = 2e-4
"""Polling interval for the time of a cell that runs in another process [s]."""


@dataclass(frozen=True, eq=False)
class Run:
    """Recording of one repeat of a task.

    Attributes:
        logs: Log of every arm by name. Time starts at the first target.
        force: Contact forces in the direction in which the task requests a force, simulated or
            measured, (m, arms) [N]. Empty without such a force.
        force_is_measured: True if the arms measured the forces, False if a simulation provides
            them.
        force_error: Measured minus true contact forces in the world frame, (m, arms, 3) [N].
        force_time: Times of the forces, (m,) [s].
        tanks: Energies of the controllet's energy tanks by name, (n,) each [J].
        tank_time: Times of the tank energies, (n,) [s].
        settling: Log of every arm before the first target, at negative times, if the task records
            it.
        fault: Reason why the run ended early, empty if it did not.
    """

    logs: Mapping[str, ArmLog]
    force: Matrix = field(default_factory=lambda: np.zeros((0, 1)))
    force_error: Matrix = field(default_factory=lambda: np.zeros((0, 1, 3)))
    force_time: Vector = field(default_factory=lambda: np.zeros(0))
    force_is_measured: bool = False
    tanks: Mapping[str, Vector] = field(default_factory=dict)
    tank_time: Vector = field(default_factory=lambda: np.zeros(0))
    settling: Mapping[str, ArmLog] = field(default_factory=dict)
    fault: str = ""

    @property
    def seconds(self) -> float:
        """Duration from the first target to the end of the run [s]."""
        ends = [float(log.time[-1]) for log in self.logs.values()]
        return min(ends) if ends else 0.0


class TaskCell:
    """Cell that is set up for a task and runs it several times.

    Args:
        task: Task to run.
        config: Cell with the arms.
        recover: True to recover real arms with a fault before the next run.

    Attributes:
        is_random: False if all runs are bitwise identical, as in a simulation without noise. Valid
            after the first run.
        cell: Running cell, or None before the first start.

    Raises:
        ValidationRejected: If the task cannot run on this cell.
    """

    def __init__(self, task: Task, config: CellConfig, *, recover: bool = False) -> None:
        self.task, self.config = task, task.scene(config)
        self._recover = recover
        self._inline = self.config.cell.placement == "inline"
        self.cell: Cell | None = None
        self.is_random = True

    def close(self) -> None:
        """Close the cell if it runs. The next run then starts a new cell."""
        if self.cell is not None:
            self.cell.close()
            self.cell = None

    def run(self, seed: int) -> Run:
        """Run the task once from its start.

        If an arm has a fault, the result contains it. No exception is raised.

        Args:
            seed: Random seed of an inline simulation; unused in real time.
        """
        try:
            cell = self.open_cell(seed)
            with _cycle_advancer(cell, self._inline) as advance, without_collections():
                settling = self._settle_and_record(cell, advance)
                run = self._record(cell, advance, settling)
                return (
                    run if self._inline or run.fault else self._restore_scene(cell, advance, run)
                )
        except MultipandaError as error:
            fault = self._fault_message() or " ".join(str(error).split())
            self.close()  # The cell may be unusable. The next run starts a new one.
            return Run({}, fault=fault)

    def _fault_message(self) -> str:
        with suppress(MultipandaError):
            return fault_of(self.cell) if self.cell is not None else ""
        return ""

    def _restore_scene(self, cell: Cell, advance: PassTime, run: Run) -> Run:
        """Restore the scene for the next run; return the run, with a fault if that fails."""
        try:
            self.task.restore_scene(cell, advance)
        except MultipandaError as error:
            self.close()
            return replace(run, fault=f"after the task: {' '.join(str(error).split())}")
        return run

    def open_cell(self, seed: int) -> Cell:
        """Return a running cell with its arms at the start of the task.

        A running inline cell is reset. Otherwise, a new cell starts, and its arms move to the
        start.

        Args:
            seed: Random seed of an inline simulation; unused in real time.
        """
        if self.cell is not None and self._inline:
            self.cell.simulation.reset(seed=seed)
            self.cell.events()
            return self.cell
        self.close()
        self.cell = cell = Cell(self.config)
        cell.start()
        if self._inline:
            self.is_random = cell.simulation.is_random
            cell.simulation.reset(seed=seed)
        else:
            self._go_to_start_and_activate(cell)
        return cell

    def _go_to_start_and_activate(self, cell: Cell) -> None:
        self._recover_or_refuse(cell)
        go_to_start(cell, self.config, self.task.forces_on_objects)
        cell.switch([CONTROLLET_NAME], strictness="force_auto")

    def _recover_or_refuse(self, cell: Cell) -> None:
        stopped = {name: fault for name in cell.arms if (fault := cell.state(name).fault)}
        if not stopped:
            return
        text = ", ".join(f"{name} ({fault})" for name, fault in stopped.items())
        if not self._recover:
            raise LoopError(
                f"arms already stopped: {text}. Recover them, or use --recover to recover before "
                "each run while a person supervises the robot."
            )
        cell.recover()

    def _settle_and_record(self, cell: Cell, advance: PassTime) -> list[NDArray[np.void]]:
        """Bring the arms to the initial state, and return cycle records if the task keeps them."""
        parts: list[NDArray[np.void]] = []
        if not self.task.keeps_settling:
            self.task.settle(cell, advance)
            return parts
        position, _ = cell.records(10**15)

        def check_settled(cycles: int) -> None:
            nonlocal position
            advance(cycles)
            position, rows = cell.records(position)
            parts.append(rows)

        self.task.settle(cell, check_settled)
        return parts

    def _record(self, cell: Cell, advance: PassTime, settling: Sequence[NDArray[np.void]]) -> Run:
        task, taken = self.task, TARGET_CYCLES
        if task.needs_every_cycle:
            taken = 1 if self._inline else FAST_TARGET_CYCLES
        position, _ = cell.records(10**15)
        start, last = cell.time, 0.0
        parts: list[NDArray[np.void]] = []
        force: list[Vector] = []
        force_error: list[Matrix] = []
        force_time: list[float] = []
        rotations = [base.rotation for base in bases_in_world(self.config).values()]
        fault, steps, each = "", 0, TARGET_CYCLES // taken
        presses = self._inline and task.requested_force(np.zeros(1)) is not None
        while last < task.seconds and not fault:
            task.set_targets(cell, last)
            try:
                advance(taken)
            except LoopError as error:
                fault = " ".join(str(error).split())
            last = cell.time - start
            steps += 1
            if steps % (_STEPS_PER_READ * each) == 0 or last >= task.seconds or fault:
                position, rows = cell.records(position)
                parts.append(rows)
            if steps % each == 0:
                fault = fault or fault_of(cell)
                if presses:
                    exerted = task.contact_forces(cell)
                    wrenches = [cell.state(arm).wrench_ext_in_base for arm in cell.arms]
                    measured = [
                        rotation @ wrench[:3] for rotation, wrench in zip(rotations, wrenches)
                    ]
                    force.append(task.force_component(exerted))
                    force_error.append(np.array(measured) - exerted)
                    force_time.append(last)
        position, rows = cell.records(position)
        rows = np.concatenate([*parts, rows])
        if (faults := rows["arms"]["fault"]).any():
            rows = rows[faults.max(axis=1) == 0]
        if fault:
            self.close()
        if not len(rows):
            return Run({}, fault=fault or "no cycle was recorded")
        # Logs start with time zero at the first target. Robot times of real arms and cell times
        # have different origins, so robot times are shifted by a different value.
        own = rows["arms"]["robot_time"]
        late = np.where(own.any(axis=0), own[0] - rows["time"][0] + start, 0.0)
        before = np.concatenate([rows[:0], *settling])
        for part in (rows, before):
            part["time"] -= start
            part["arms"]["robot_time"] -= late
        tanks = self._tanks(rows)
        return Run(
            logs=dict(log_of_rows(rows, self.config).arms),
            force=np.array(force) if force else np.zeros((0, task.arms)),
            force_error=np.array(force_error) if force else np.zeros((0, task.arms, 3)),
            force_time=np.array(force_time),
            tanks=tanks,
            tank_time=rows["time"].copy() if tanks else np.zeros(0),
            settling=dict(log_of_rows(before, self.config).arms) if len(before) else {},
            fault=fault,
        )

    def _tanks(self, rows: NDArray[np.void]) -> dict[str, Vector]:
        spec = next(spec for spec in instance_specs(self.config) if spec.name == CONTROLLET_NAME)
        return {
            str(name): rows["reports"][:, spec.index, column].copy()
            for column, name in enumerate(spec.controllet_class.report_names)
            if "tank" in str(name)
        }


def run_task(task: Task, config: CellConfig, seed: int = 0, *, recover: bool = False) -> Run:
    """Run a task once on the arms of a cell.

    Args:
        task: Task to run.
        config: Configuration of the cell.
        seed: Random seed of an inline simulation; unused in real time.
        recover: True to recover real arms with a fault before the run.
    """
    cell = TaskCell(task, config, recover=recover)
    try:
        return cell.run(seed)
    finally:
        cell.close()


@contextmanager
def _cycle_advancer(cell: Cell, inline: bool) -> Iterator[PassTime]:
    """Yield a function that advances a cell by a number of cycles, by steps or in real time."""
    if inline:
        yield cell.step
        return

    def wait(cycles: int) -> None:
        until = cell.time + cycles / cell.config.cell.rate
        limit = clock.monotonic() + _STALL_TIMEOUT
        while cell.time < until:
            cell.check()
            if clock.monotonic() > limit:
                raise LoopError(
                    f"cell: its time did not advance for {_STALL_TIMEOUT:g} s, because its loop "
                    "is blocked. Start the cell again"
                )
            clock.sleep(_POLL_PERIOD)

    yield wait


COLUMNS = ("time", *JOINT_COLUMNS, "tau_ext", "position_ee_in_base", "wrench_ext_in_base")
"""Stored columns of each arm: all that comparison, identification and reports need."""
_METADATA_KEY = "about"
_LOG_METADATA = (
    "arm",
    "robot",
    "joints",
    "gravity_in_tau",
    "gravity_in_tau_commanded",
    "laws",
    "starts",
)
_LOG_GROUPS = ("logs", "settling")
_SCALARS = ("fault", "force_is_measured")
_ARRAYS = ("force", "force_error", "force_time", "tank_time")


def save_run(path: Path, run: Run) -> None:
    """Write a run as ``.npz``, atomically.

    Raises:
        ConfigurationError: If the file cannot be written.
    """
    arrays: dict[str, Any] = {name: getattr(run, name) for name in _ARRAYS}
    arrays |= {f"tank {k}": values for k, values in enumerate(run.tanks.values())}
    about: dict[str, Any] = {"tanks": list(run.tanks)}
    about |= {name: getattr(run, name) for name in _SCALARS}
    for part in _LOG_GROUPS:
        logs: Mapping[str, ArmLog] = getattr(run, part)
        about[part] = {}
        for k, (name, log) in enumerate(logs.items()):
            about[part][name] = {fact: getattr(log, fact) for fact in _LOG_METADATA}
            if log.gravity_in_base is not None:
                arrays[f"{part} {k} gravity_in_base"] = log.gravity_in_base
            for column in log.names:
                if column in COLUMNS:
                    arrays[f"{part} {k} {column}"] = log[column]
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_METADATA_KEY: np.array(json.dumps(about)), **arrays})


def load_run(path: Path) -> Run:
    """Read a run written by :func:`save_run`.

    Raises:
        LogError: If the file cannot be read or contains no run.
    """
    try:
        with open_regular(path) as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays.pop(_METADATA_KEY)))
        result: dict[str, Any] = {part: _logs(part, about[part], arrays) for part in _LOG_GROUPS}
        result |= {name: arrays[name] for name in _ARRAYS}
        result["tanks"] = {name: arrays[f"tank {k}"] for k, name in enumerate(about["tanks"])}
        return Run(**result, **{name: about[name] for name in _SCALARS})
    except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile) as error:
        words = " ".join(str(error).split())
        raise LogError(f"{path}: not a run of a task: {words}") from None


def _logs(
    part: str, facts: Mapping[str, Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, ArmLog]:
    logs = {}
    for k, (name, own) in enumerate(facts.items()):
        head = f"{part} {k} "
        columns = {
            name.removeprefix(head): values
            for name, values in arrays.items()
            if name.startswith(head)
        }
        gravity = columns.pop("gravity_in_base", None)
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in own.items()
        }
        log = ArmLog(**options, time=columns["time"], q=columns["q"], gravity_in_base=gravity)
        logs[name] = log.with_columns(columns, log.starts)
    return logs
