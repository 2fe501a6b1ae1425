# SPDX-License-Identifier: Apache-2.0
"""Queries of processes, and waits for conditions."""

from __future__ import annotations

import time
from pathlib import Path

from multipanda_py.exceptions import LoopTimeout, RecoveryFailed

SHARED_MEMORY = Path("/dev/shm")
OF_DDS = ("fastdds_", "fastrtps_", "sem.fast")
"""Prefixes of middleware files; at start, the node removes those of killed processes."""


def children(pid):
    """Return the children of a process, oldest first."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    """Return the children of a process, recursively."""
    found = children(pid)
    return found + [other for child in found for other in descendants(child)]


def runs_module(pid, module):
    """Return whether a process was started as ``python -m module``."""
    try:
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def is_running(pid):
    """Return whether a process runs; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory():
    """Return the names of shared memory, except that of the middleware."""
    return {file.name for file in SHARED_MEMORY.iterdir() if not file.name.startswith(OF_DDS)}


TIMEOUT_SCALE = 4.0
"""Factor on timeouts, because tests in parallel share the cores. It delays only failed waits."""


def let_pass(seconds):
    """Sleep for a time that is under test [s]: a timeout, a load, a late signal.

    Tests have no other sleep. They await conditions with ``wait_until``.
    """
    time.sleep(seconds)


def poll():
    """Sleep between two checks of a condition."""
    let_pass(0.01)


def wait_until(condition, timeout=15.0, what=lambda: "condition", step=poll):
    """Wait until a condition holds, with ``step()`` between two checks; fail with ``what()``."""
    deadline = time.monotonic() + TIMEOUT_SCALE * timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {TIMEOUT_SCALE * timeout:g} s: {what()}")
        step()


def recovers(cell, arms=None):
    """Return whether a recovery succeeds; its cause may persist for a moment."""
    try:
        cell.recover(arms)
    except (RecoveryFailed, LoopTimeout):
        return False
    return True
