# SPDX-License-Identifier: Apache-2.0
"""Find the cells that run on this machine, and read their cycle records, from any process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import LoopError, UnknownName
from multipanda_py.realtime.cycle_record import RecordReader
from multipanda_py.realtime.recording.topics import CellPlan
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.state import Vector


class RecordFollower(RecordReader):
    """Reader that returns every cycle record of a running cell once and in order.

    Reading begins with the next record. A slow, stopped or killed reader does not affect the loop.
    The last records stay readable after the end of the cell.

    Args:
        config: Configuration of the cell, equal to that of the owning process.
        source: Shared memory of the cell: a path such as
            :attr:`multipanda_py.cell.Cell.records_path`, or a file descriptor, which the caller
            closes.

    Attributes:
        arms: Names of the arms, in the order of ``arms`` in a record.
        controllets: Names of the controllet instances. ``owner`` in a record is an index into this
            tuple, and ``reports`` has one row per name.

    Raises:
        LoopError: If the memory cannot be read, or belongs to another cell.

    Example in another process::

        follower = RecordFollower(config, records_path)
        while True:
            rows = follower.wait(1.0)

    Records are a structured array: ``rows["arms"]["q"]`` has the shape (n, arms, joints).

    Thread: one at a time.
    """

    def __init__(self, config: CellConfig, source: int | str | Path) -> None:
        self._specs = instance_specs(config)
        self.arms = tuple(config.arms)
        self.controllets = tuple(spec.name for spec in self._specs)
        path = f"/proc/self/fd/{source}" if isinstance(source, int) else str(source)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LoopError(
                f"{path} cannot be read ({error.strerror}). Use Cell.records_path of a running "
                "cell, in a process of the same user"
            ) from error
        try:
            super().__init__(Mailbox(config, self._specs, fd, read_only=True).ring)
        finally:
            os.close(fd)  # The mapping stays valid without its file descriptor.

    def terms(self, record: NDArray[np.void], arm: str) -> dict[str, Vector]:
        """Return the terms of the commanded torque of an arm by name, each (joints,) [Nm].

        The terms are ``law`` (torque of the controllet), one per feature with its name, ``blend``
        (change by the blend after a switch) and ``bounds`` (change by torque limits). Their sum is
        the commanded torque ``tau``. The result is empty unless
        :meth:`multipanda_py.cell.Cell.trace_torques` is on.

        Args:
            record: Cycle record.
            arm: Name of the arm.
        """
        arm_record = record["arms"][self.arms.index(arm)]
        traced = int(arm_record["torque_terms_recorded"])
        if not traced:
            return {}
        names = ["law", *self._specs[int(arm_record["owner"])].features]
        terms = {
            name: arm_record["torque_terms"][k].copy() for k, name in enumerate(names[:traced])
        }
        terms["blend"] = arm_record["tau_desired"] - arm_record["torque_terms"][:traced].sum(
            axis=0
        )
        terms["bounds"] = arm_record["tau"] - arm_record["tau_desired"]
        return terms


_NAME = "multipanda-plan"


class Announced:
    """Announcement of a cell, which :func:`running_cells` finds until the owning process ends.

    Args:
        plan: Description of the cell.
        fd: File descriptor of the shared memory of the cell.
    """

    def __init__(self, plan: CellPlan, fd: int) -> None:
        # The kernel removes an anonymous memory file with its process.
        self._fd = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        text = f"{plan.name}\n{fd}\n{plan.to_json()}\n".encode()
        with open(self._fd, "wb", closefd=False) as file:
            file.write(text)

    def close(self) -> None:
        """Withdraw the announcement; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def running_cells() -> dict[str, tuple[CellPlan, Path]]:
    """Return the running cells of this user.

    Returns:
        Description and path of the shared memory of each cell, by its name.
    """
    cells = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        for plan, memory in _announced_by(process):
            cells[plan.name] = plan, memory
    return cells


def find_running(name: str = "") -> tuple[CellPlan, Path]:
    """Return the description and the path of the shared memory of a running cell.

    Args:
        name: Name of the cell; empty if only one cell runs.

    Raises:
        LoopError: If no cell runs, or if ``name`` is empty and several cells run.
        UnknownName: If no running cell has this name.
    """
    cells = running_cells()
    if not cells:
        raise LoopError(
            "no cell of this user is running on this machine: start one, or name a cell file"
        )
    if name in cells:
        return cells[name]
    if name:
        raise UnknownName("running cell", name, sorted(cells))
    if len(cells) > 1:
        raise LoopError(f"several cells are running; name one of them: {', '.join(sorted(cells))}")
    return next(iter(cells.values()))


def _announced_by(process: Path) -> Iterator[tuple[CellPlan, Path]]:
    with contextlib.suppress(OSError):  # The process may have ended, or belong to another user.
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if not os.readlink(link).startswith(f"/memfd:{_NAME}"):
                    continue
                _, fd, plan, _ = link.read_text(encoding="utf-8").split("\n")
                memory = process / "fd" / fd
                if memory.exists():
                    yield CellPlan.from_json(plan), memory
