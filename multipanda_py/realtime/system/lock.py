# SPDX-License-Identifier: Apache-2.0
"""Lock that allows one running instance of a cell."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from multipanda_py.exceptions import CellBusy, LoopError

USER_FOLDERS = Path("/run/user")
"""Folder in which the system creates a folder for every user who is logged in."""
SHARED_FOLDER = Path("/tmp")
"""Folder in which this user's folder is created if the system has none."""


class CellLock:
    """File lock that the kernel releases when its last holder dies.

    The process of the loop inherits the lock. If the owning process crashes, the cell thus stays
    locked until its arms are at rest.

    Args:
        name: Name of the cell.

    Attributes:
        fd: File descriptor of the locked file.

    Raises:
        CellBusy: If the cell is running already; the message names the process.
        LoopError: If folder or file do not belong to this user.
    """

    def __init__(self, name: str) -> None:
        folder = lock_folder()
        path = folder / f"{name}.lock"
        inside = _open_or_create_folder(folder)
        try:
            self.fd = _open_or_create_lock_file(path, inside)
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
        """Release the lock; safe to call twice."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = -1


def lock_folder() -> Path:
    """Return the folder for the locks of this user.

    It is in the user's folder below ``/run/user``, or in ``/tmp`` if the system has no such
    folder.
    """
    # Environment variables have no effect, because all processes of a user must use the same
    # locks.
    user = str(os.getuid())
    with contextlib.suppress(OSError):
        if not _reason_for_distrust(os.stat(USER_FOLDERS / user)):
            return USER_FOLDERS / user / "multipanda"
    return SHARED_FOLDER / f"multipanda-{user}"


def _open_or_create_folder(folder: Path) -> int:
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LoopError(
            f"{folder}: cannot be used for the locks of running cells: {_reason(error)}. "
            "Remove it: the locks need a folder of this user with mode 0700"
        ) from None
    unsafe = _reason_for_distrust(os.fstat(fd))
    if unsafe:
        os.close(fd)
        raise LoopError(
            f"{folder}: cannot be used for the locks of running cells: it {unsafe}. "
            "Remove it, or chmod 700: the locks need a folder of this user with mode 0700"
        )
    return fd


def _open_or_create_lock_file(path: Path, folder_fd: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path.name, flags, 0o600, dir_fd=folder_fd)
    except OSError as error:
        raise LoopError(f"{path}: cannot be opened as a lock: {_reason(error)}") from None
    result = os.fstat(fd)
    if not stat.S_ISREG(result.st_mode) or result.st_uid != os.getuid() or result.st_nlink != 1:
        os.close(fd)
        raise LoopError(f"{path}: is not a regular file of this user. Remove it")
    return fd


def _reason(error: OSError) -> str:
    link = error.errno == errno.ELOOP
    return "it is a symbolic link" if link else str(error.strerror)


def _reason_for_distrust(result: os.stat_result) -> str:
    if not stat.S_ISDIR(result.st_mode):
        return "is not a folder"
    if result.st_uid != os.getuid():
        return f"belongs to user {result.st_uid}, not {os.getuid()}"
    if stat.S_IMODE(result.st_mode) & 0o077:
        return f"has mode {stat.S_IMODE(result.st_mode):04o}, so that other users may enter"
    return ""
