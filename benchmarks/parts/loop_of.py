# SPDX-License-Identifier: Apache-2.0
"""Process, core and cycle records of the loop of a running node."""

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
PAUSE = 0.1  # Time between two checks [s].


class Loop(NamedTuple):
    """Running loop.

    Attributes:
        pid: Process ID.
        cpu: Core to which the process is pinned.
        rows: Reader of its cycle records.
    """

    pid: int
    cpu: int
    rows: RecordFollower


def loop_of(node: int, cell: Path, timeout: float) -> Loop | None:
    """Return the loop of a node, or None if none runs before the timeout.

    Args:
        node: Process ID of the node.
        cell: Cell file of the node.
        timeout: Maximum time to wait [s].
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for pid in family(node):
            with contextlib.suppress(OSError):
                cores = os.sched_getaffinity(pid)
                if name_of(pid) != MODULE or len(cores) > 1:  # A running loop is pinned.
                    continue
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    if "memfd:multipanda" in os.readlink(entry):
                        rows = RecordFollower(CellConfig.from_yaml(cell), entry)
                        return Loop(pid, max(cores), rows)
        time.sleep(PAUSE)
    return None
