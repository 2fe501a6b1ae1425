# SPDX-License-Identifier: Apache-2.0
"""Find a running cell from outside, with all that is needed to read along."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from multipanda_py.exceptions import LoopError, UnknownName
from multipanda_py.logs.plan import CellPlan

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
