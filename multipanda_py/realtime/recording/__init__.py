# SPDX-License-Identifier: Apache-2.0
"""Logs of arms, recorded by a cell or by other tools: read as arrays, checked, plotted.

:func:`read` reads one log of any supported format, or several logs of one experiment.
:class:`ArmLog` is the input of identification, validation and plots.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipanda_py.realtime.recording.arm_log import ArmLog as ArmLog
    from multipanda_py.realtime.recording.log import Log as Log
    from multipanda_py.realtime.recording.log import Mark as Mark
    from multipanda_py.realtime.recording.log_reader import read as read

_PUBLIC = {
    "ArmLog": "multipanda_py.realtime.recording.arm_log",
    "Log": "multipanda_py.realtime.recording.log",
    "Mark": "multipanda_py.realtime.recording.log",
    "read": "multipanda_py.realtime.recording.log_reader",
}
__all__ = ["ArmLog", "Log", "Mark", "read"]


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562), which keeps the recorder process small."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
