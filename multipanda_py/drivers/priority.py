# SPDX-License-Identifier: Apache-2.0
"""The place of a driver among what else the machine runs."""

from __future__ import annotations

import os


def take_priority(priority: int, peer: str) -> list[str]:
    """Take a real-time priority, and no other than this.

    Args:
        priority: Of SCHED_FIFO; 0 keeps the normal scheduler.
        peer: What the driver speaks with, in words.

    Returns:
        What the machine refused, as sentences.
    """
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if priority <= 0:
        return []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return [
            f"no real-time priority for the driver of {peer} ({error.strerror}): it "
            "will lose commands when the machine is busy (allow it by 'rtprio 98' in "
            "/etc/security/limits.conf)"
        ]
    return []
