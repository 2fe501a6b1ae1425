# SPDX-License-Identifier: Apache-2.0
"""One instance of a cell at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

from multipanda_py.exceptions import CellBusy


class CellLock:
    """A file lock that the kernel releases when its last holder dies.

    The loop's process inherits it, so that a cell stays taken until its arms are at rest
    even when its owner has crashed.

    Attributes:
        fd: Descriptor of the locked file.

    Raises:
        CellBusy: If the cell is running already; names the process.
    """

    def __init__(self, name: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"multipanda-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder / f"{name}.lock"
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self.fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(self.fd)
            raise CellBusy(
                f"cell {name!r} is running already, started by process {holder}; "
                "stop that one, or give this cell another name (cell.name)"
            ) from None
        os.ftruncate(self.fd, 0)
        os.write(self.fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let go of the cell; safe to call twice."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = -1
