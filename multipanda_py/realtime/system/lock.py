# SPDX-License-Identifier: Apache-2.0
"""One instance of a cell at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from multipanda_py.exceptions import CellBusy, LoopError

USERS = Path("/run/user")
"""Where the system makes a folder for every user who is logged in."""
SHARED = Path("/tmp")
"""Where a folder of this user's own is made else."""


class CellLock:
    """A file lock that the kernel releases when its last holder dies.

    The loop's process inherits it, so that a cell stays taken until its arms are at rest
    even when its owner has crashed.

    Attributes:
        fd: Descriptor of the locked file.

    Raises:
        CellBusy: If the cell is running already; names the process.
        LoopError: If the folder or the file of locks is not this user's own.
    """

    def __init__(self, name: str) -> None:
        folder = lock_folder()
        path = folder / f"{name}.lock"
        inside = _open_own_folder(folder)
        try:
            self.fd = _open_own_file(path, inside)
        finally:
            os.close(inside)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self.fd, 32).decode(errors="replace").strip() or "unknown"
            self.release()
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


def lock_folder() -> Path:
    """Return the folder for this user's locks.

    It is in the folder that the system made for this user; on machines without one it is in
    that for everybody's temporary files. The environment has no say in it: services, ``sudo``
    and terminals differ in ``XDG_RUNTIME_DIR`` and ``TMPDIR``, and every process of a user must
    find the same lock.
    """
    user = str(os.getuid())
    with contextlib.suppress(OSError):
        if not _why_unsafe(os.stat(USERS / user)):
            return USERS / user / "multipanda"
    return SHARED / f"multipanda-{user}"


def _open_own_folder(folder: Path) -> int:
    """Open the folder, made if need be, and refuse one that somebody else prepared."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LoopError(
            f"{folder}: cannot be used for the locks of running cells: {_reason(error)}; "
            "expected a folder of this user's own (mode 0700): remove what is there"
        ) from None
    unsafe = _why_unsafe(os.fstat(fd))
    if unsafe:
        os.close(fd)
        raise LoopError(
            f"{folder}: cannot be used for the locks of running cells: it {unsafe}; "
            "allowed is a folder of this user's own with mode 0700: remove it, or chmod 700"
        )
    return fd


def _open_own_file(path: Path, folder: int) -> int:
    """Open the file within its folder: never what a link points to, and never for long."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path.name, flags, 0o600, dir_fd=folder)
    except OSError as error:
        raise LoopError(f"{path}: cannot be opened as a lock: {_reason(error)}") from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_nlink != 1:
        os.close(fd)
        raise LoopError(f"{path}: is no plain file of this user's own: remove it")
    return fd


def _reason(error: OSError) -> str:
    """Word an error of ``open``; what O_NOFOLLOW says of a link is misleading."""
    link = error.errno == errno.ELOOP
    return "it is a symbolic link" if link else str(error.strerror)


def _why_unsafe(found: os.stat_result) -> str:
    """Say why others could put files into a folder, or nothing."""
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}, not {os.getuid()}"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"has mode {stat.S_IMODE(found.st_mode):04o}, so others may enter"
    return ""
