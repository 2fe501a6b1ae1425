# SPDX-License-Identifier: Apache-2.0
"""Where the seconds around faults are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipanda_py.config.sections import RecorderConfig

SWITCH = "MULTIPANDA_FAULT_LOGS"
"""Environment variable: ``off`` keeps nothing, whatever cell files say."""


def fault_folder(settings: RecorderConfig, cell: str) -> Path:
    """Return the folder of a cell, which need not be there yet.

    By default it is where the XDG Base Directory Specification has what programs leave behind.
    """
    if settings.folder:
        return Path(settings.folder).expanduser() / cell
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return home / "multipanda" / cell


def faults_are_kept(settings: RecorderConfig) -> bool:
    """Return whether the seconds around faults are kept, by cell file and environment."""
    return settings.faults and os.environ.get(SWITCH, "").lower() not in ("off", "0", "false")
