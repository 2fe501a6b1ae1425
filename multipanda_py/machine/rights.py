# SPDX-License-Identifier: Apache-2.0
"""What this process may do by itself, whatever its user is called."""

from __future__ import annotations

from pathlib import Path

SYS_NICE, IPC_LOCK = 23, 14
"""Capabilities, by which limits of priorities and of locked memory do not count."""
STATUS = Path("/proc/self/status")
"""File in which the kernel lists the capabilities of this process."""


def has_capability(number: int) -> bool:
    """Return whether the kernel grants a capability: to root as well, containers often do not."""
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False
