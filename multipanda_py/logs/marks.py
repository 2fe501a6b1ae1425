# SPDX-License-Identifier: Apache-2.0
"""What happened in a log, as marks in time."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.log import Mark
from multipanda_py.loop.events import Event


def marks_of(arms: Mapping[str, ArmLog]) -> tuple[Mark, ...]:
    """Return when arms got and lost a fault, and when another law had them."""
    found: list[Mark] = []
    for name, log in arms.items():
        fault = log.columns.get("fault")
        if fault is not None:
            before = np.concatenate([[0], fault[:-1]])
            for k in np.flatnonzero(fault != before):
                kind = "fault" if fault[k] else "recovered"
                found.append(Mark(float(log.time[k]), name, kind, fault_name(int(fault[k]))))
        owner = log.columns.get("owner")
        if owner is not None and log.laws:
            found += [
                Mark(float(log.time[k]), name, "law", log.laws[int(owner[k])])
                for k in np.flatnonzero(np.diff(owner, prepend=-1))
            ]
    return tuple(sorted(found, key=lambda mark: mark.time))


def fault_name(number: int) -> str:
    """Return what a fault is called; an empty string for none."""
    try:
        return Event(number).name.lower() if number else ""
    except ValueError:
        return f"fault {number}"


def read_event(message: bytes, time: float) -> Mark:
    """Return a report of the loop, a ``rcl_interfaces/Log``, as a mark.

    Args:
        message: In CDR.
        time: Robot time [s].
    """
    at = 4 + 9
    texts = []
    for _ in range(4):
        at += -(at - 4) % 4
        (length,) = struct.unpack_from("<I", message, at)
        texts.append(message[at + 4 : at + 4 + length - 1].decode("utf-8", "replace"))
        at += 4 + length
    arm, text, law, kind = texts
    return Mark(time, arm, "event", f"{kind}: {text}" + (f" ({law})" if law else ""))
