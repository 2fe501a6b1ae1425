# SPDX-License-Identifier: Apache-2.0
"""What processes take of a machine, as /proc tells, and whether it grows.

Anonymous memory is judged: what is shared with other programs depends on what else runs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("memory [MiB]", "resident [MiB]", "descriptors", "threads", "shared [MiB]")
ALLOWED = 2.0  # growth of a process's memory after the warm-up [MiB]
WARM_UP = 0.2  # of the time


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def sample(pid: int) -> list[float]:
    """Return the figures of a process, in the order of COLUMNS."""
    folder = Path(f"/proc/{pid}")
    rollup = (folder / "smaps_rollup").read_text()
    sizes = {key: int(kib) / 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", rollup)}
    names = set(re.findall(r"/dev/shm/\S+", (folder / "maps").read_text()))
    shared = sum(os.stat(name).st_size for name in names if os.path.exists(name)) / 2**20
    descriptors = len(os.listdir(folder / "fd"))
    threads = len(os.listdir(folder / "task"))
    return [sizes["Anonymous"], sizes["Rss"], descriptors, threads, shared]


def name_of(pid: int) -> str:
    """Return the module that a process runs."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return next((word for word in words if word.startswith("multipanda_py.")), words[0])


def growth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much figures of (n, columns) are larger at the end than after the warm-up."""
    kept = values[int(WARM_UP * len(values)) :]
    tenth = max(len(kept) // 10, 1)
    found: NDArray[np.float64] = np.median(kept[-tenth:], 0) - np.median(kept[:tenth], 0)
    return found


def has_grown(more: NDArray[np.float64]) -> bool:
    """Return whether a growth, (columns,), is more than a process may show."""
    return bool(more[0] > ALLOWED or (more[2:4] > 0).any() or more[4] > ALLOWED)
