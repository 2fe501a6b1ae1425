# SPDX-License-Identifier: Apache-2.0
"""Bounded reading of files that a client or a command line names.

A path may name a device that never ends, a FIFO without a writer, or a file of gigabytes. Each
file is opened without blocking and checked by its descriptor, so that neither a replaced file nor
a link passes the check.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from multipanda_py.exceptions import FileRefused

MAX_TEXT = 1 << 20
"""Maximum size of a file that people write: cells, parameters, tasks, robots [bytes]."""
MAX_REMOTE = 1 << 17
"""Maximum size of a file that a ROS client names, as the node serves nothing meanwhile [bytes]."""
MAX_DESCRIPTION = 1 << 26
"""Maximum size of a URDF, an MJCF or a JSON that programs write [bytes]."""
MAX_RECORDING = 1 << 33
"""Maximum size of a log or of one file of a data set [bytes]."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PART = 1 << 16


def open_regular(path: str | Path, max_size: int | None = None) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device never blocks.

    Args:
        path: Path of the file.
        max_size: Maximum size [bytes]; None for files that are read in parts.

    Raises:
        FileRefused: If it is no regular file, or is larger.
        OSError: If it cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:  # a path with a null character
        raise FileRefused(errno.EINVAL, str(error), str(path)) from None
    file = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise FileRefused(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(errno.EINVAL, "is no regular file", str(path))
        if max_size is not None and status.st_size > max_size:
            raise _too_large(path, max_size)
    except BaseException:
        file.close()
        raise
    return file


def parts_of(path: str | Path) -> Iterator[bytes]:
    """Yield the content of a recording in parts, as for a digest; see :func:`open_regular`."""
    with open_regular(path, MAX_RECORDING) as file:
        while part := file.read(_PART):
            yield part


def check_regular(path: str | Path, max_size: int | None = None) -> None:
    """Refuse what :func:`open_regular` refuses, for a library that opens the file by its path."""
    open_regular(path, max_size).close()


def read_bytes(path: str | Path, max_size: int = MAX_TEXT) -> bytes:
    """Return the content of a regular file, whose stated size may be wrong (``/proc``).

    Raises:
        FileRefused: If it is no regular file, or is larger.
        OSError: If it cannot be read.
    """
    with open_regular(path, max_size) as file:
        content = bytearray()
        while part := os.read(file.fileno(), _PART):
            content += part
            if len(content) > max_size:
                raise _too_large(path, max_size)
    return bytes(content)


def read_text(path: str | Path, max_size: int = MAX_TEXT) -> str:
    """Return the UTF-8 text of a regular file.

    Raises:
        FileRefused: If it is no regular file, is larger, or is no UTF-8; the reason repeats
            nothing of the content.
        OSError: If it cannot be read.
    """
    content = read_bytes(path, max_size)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is no UTF-8 text: byte {error.start}"
        raise FileRefused(errno.EILSEQ, reason, str(path)) from None


def _too_large(path: str | Path, max_size: int) -> FileRefused:
    return FileRefused(errno.EFBIG, f"is larger than {max_size} bytes", str(path))
