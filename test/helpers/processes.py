# SPDX-License-Identifier: Apache-2.0
"""What tests ask of processes: which there are, whether they run, and to wait for them."""

from __future__ import annotations

import time
from pathlib import Path

from multipanda_py.exceptions import LoopTimeout, RecoveryFailed

SHARED_MEMORY = Path("/dev/shm")
OF_DDS = ("fastdds_", "fastrtps_", "sem.fast")
"""Files of the middleware; the node removes what killed ones left when it starts the next time."""


def children(pid):
    """Return the children of a process, oldest first."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    """Return the children of a process, and theirs."""
    found = children(pid)
    return found + [other for child in found for other in descendants(child)]


def runs_module(pid, module):
    """Return whether a process was started as ``python -m module``."""
    try:
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def is_running(pid):
    """Return whether a process has not ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory():
    """Return the names of shared memory that is nobody's but ours."""
    return {file.name for file in SHARED_MEMORY.iterdir() if not file.name.startswith(OF_DDS)}


TIMEOUT_SCALE = 4.0
"""How much longer than on a quiet machine anything may take: beside other loops a process gets a
fraction of a core. It costs nothing where all goes well, and what hangs is found all the same."""


def let_pass(seconds):
    """Let time pass [s] where the time itself is under test: a silence, a load, a late signal.

    It is the only sleep of the tests. What can be waited for is waited for with ``wait_until``.
    """
    time.sleep(seconds)


def poll():
    """Leave other processes some time between two checks of a condition."""
    let_pass(0.01)


def wait_until(condition, timeout=15.0, what=lambda: "condition", turn=poll):
    """Wait until a condition holds, with ``turn()`` between two checks; fail with ``what()``."""
    deadline = time.monotonic() + TIMEOUT_SCALE * timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {TIMEOUT_SCALE * timeout:g} s: {what()}")
        turn()


def recovers(cell, arms=None):
    """Return whether arms hold after a recovery: what was wrong may not quite have gone."""
    try:
        cell.recover(arms)
    except (RecoveryFailed, LoopTimeout):
        return False
    return True
