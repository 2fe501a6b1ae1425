# SPDX-License-Identifier: Apache-2.0
"""Memory, descriptors and threads of processes from /proc, and their growth.

Growth is that of anonymous memory. Memory shared with other programs depends on those.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("memory [MiB]", "resident [MiB]", "descriptors", "threads", "shared [MiB]")
ALLOWED = 2.0  # Maximum growth of memory after the warm-up [MiB].
WARM_UP = 0.2  # Fraction of the samples.


def family(pid: int) -> list[int]:
    """Return the IDs of a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def sample(pid: int) -> list[float]:
    """Return the values of a process in the order of ``COLUMNS``."""
    folder = Path(f"/proc/{pid}")
    rollup = (folder / "smaps_rollup").read_text()
    sizes = {key: int(kib) / 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", rollup)}
    names = set(re.findall(r"/dev/shm/\S+", (folder / "maps").read_text()))
    shared = sum(os.stat(name).st_size for name in names if os.path.exists(name)) / 2**20
    descriptors = len(os.listdir(folder / "fd"))
    threads = len(os.listdir(folder / "task"))
    return [sizes["Anonymous"], sizes["Rss"], descriptors, threads, shared]


def name_of(pid: int) -> str:
    """Return the module of this package that a process runs, or its program."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return next((word for word in words if word.startswith("multipanda_py.")), words[0])


def growth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the increase of samples (n, columns) from the warm-up to the end, (columns,)."""
    kept = values[int(WARM_UP * len(values)) :]
    tenth = max(len(kept) // 10, 1)
    found: NDArray[np.float64] = np.median(kept[-tenth:], 0) - np.median(kept[:tenth], 0)
    return found


def has_grown(more: NDArray[np.float64]) -> bool:
    """Return True if a growth (columns,) exceeds the allowed one."""
    return bool(more[0] > ALLOWED or (more[2:4] > 0).any() or more[4] > ALLOWED)
