# SPDX-License-Identifier: Apache-2.0
"""The loop of a node that runs, found from outside: its process, its core, and its rows."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from parts.footprint import family, name_of

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.running_cell import RecordFollower

MODULE = "multipanda_py.realtime.process"
PAUSE = 0.1  # between two looks [s]


class Loop(NamedTuple):
    """A loop.

    Attributes:
        pid: Of its process.
        cpu: The core that it is pinned to.
        rows: Follows it.
    """

    pid: int
    cpu: int
    rows: RecordFollower


def loop_of(node: int, cell: Path, timeout: float) -> Loop | None:
    """Wait until a node has a loop that runs; return it, or None if it does not come.

    Args:
        node: Process of the node.
        cell: The cell file that it was started with.
        timeout: For it to come [s].
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for pid in family(node):
            with contextlib.suppress(OSError):
                cores = os.sched_getaffinity(pid)
                if name_of(pid) != MODULE or len(cores) > 1:  # it has not begun
                    continue
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    if "memfd:multipanda" in os.readlink(entry):
                        rows = RecordFollower(CellConfig.from_yaml(cell), entry)
                        return Loop(pid, max(cores), rows)
        time.sleep(PAUSE)
    return None
