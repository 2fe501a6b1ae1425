# SPDX-License-Identifier: Apache-2.0
"""Find a running cell from outside, with all that is needed to read along."""

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
from multipanda_py.realtime.record_ring import RowReader
from multipanda_py.realtime.recording.topics import CellPlan
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.state import Vector


class RowFollower(RowReader):
    """Read every row once, in order; what came too fast is counted.

    The memory is only read: a follower that is slow, stopped or killed costs the loop nothing.
    It begins with the next row, and goes on showing the last ones after the cell has ended.

    Args:
        config: The cell, as its owner has it.
        source: Descriptor of the cell's shared memory, which stays the caller's, or a path as
            :attr:`multipanda_py.cell.Cell.rows_path`.

    Attributes:
        arms: Names of the arms, in the order of a row's ``arms``.
        controllets: Names of the instances, by the index in ``owner`` and ``reports``.
        dtype: Of a row, see ``doc/rows.md``.
        seen: How many rows were before those that :meth:`take` returns next.
        dropped: How many of them were overwritten before they could be copied.

    Raises:
        LoopError: If the memory cannot be read, or is not that of this cell.

    Example, in another process::

        follower = RowFollower(CellConfig.from_yaml("config/dual_sim.yaml"), rows_path)
        while True:
            rows = follower.wait(1.0)  # structured: rows["arms"]["q"] is (n, arms, joints)

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
                f"{path} cannot be read ({error.strerror}): allowed is Cell.rows_path of a cell "
                "that runs, to processes of its user"
            ) from error
        try:
            super().__init__(Mailbox(config, self._specs, fd, read_only=True).ring)
        finally:
            os.close(fd)  # the mapping stays

    def terms(self, row: NDArray[np.void], arm: str) -> dict[str, Vector]:
        """Return what has made up the torque of an arm in one row, by name, each (joints,) [Nm].

        ``law``, its features by their names, ``blend`` (from the owner before) and ``bounds`` (in
        value and rate) add up to ``tau``. Empty while nobody has called
        :meth:`multipanda_py.cell.Cell.trace_torques`.
        """
        record = row["arms"][self.arms.index(arm)]
        traced = int(record["terms_traced"])
        if not traced:
            return {}
        names = ["law", *self._specs[int(record["owner"])].features]
        found = {name: record["terms"][k].copy() for k, name in enumerate(names[:traced])}
        found["blend"] = record["tau_wanted"] - record["terms"][:traced].sum(axis=0)
        found["bounds"] = record["tau"] - record["tau_wanted"]
        return found


_NAME = "multipanda-plan"


class Announced:
    """What a cell's owner lays open for processes of its user: a file without a name.

    It is there for as long as the owner lives, and no crash leaves it behind.

    Args:
        plan: The cell.
        fd: Of its shared memory.
    """

    def __init__(self, plan: CellPlan, fd: int) -> None:
        self._fd = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        text = f"{plan.name}\n{fd}\n{plan.to_json()}\n".encode()
        with open(self._fd, "wb", closefd=False) as file:
            file.write(text)

    def close(self) -> None:
        """Take it back; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def running_cells() -> dict[str, tuple[CellPlan, Path]]:
    """Return all cells that this user's processes run, and the shared memory of each, by name."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        for plan, memory in _announced_by(process):
            found[plan.name] = plan, memory
    return found


def find_running(name: str = "") -> tuple[CellPlan, Path]:
    """Return a running cell and its shared memory.

    Args:
        name: Of the cell; empty for the only one there is.

    Raises:
        LoopError: If none runs, or none is named and there are several.
        UnknownName: If there is none of this name.
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
        raise LoopError(f"several cells are running, name one: {', '.join(sorted(cells))}")
    return next(iter(cells.values()))


def _announced_by(process: Path) -> Iterator[tuple[CellPlan, Path]]:
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if not os.readlink(link).startswith(f"/memfd:{_NAME}"):
                    continue
                _, fd, plan, _ = link.read_text(encoding="utf-8").split("\n")
                memory = process / "fd" / fd
                if memory.exists():
                    yield CellPlan.from_json(plan), memory
