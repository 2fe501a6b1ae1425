# SPDX-License-Identifier: Apache-2.0
"""What commands write, and the exit codes they end with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.machine.whole_file import replacing

if TYPE_CHECKING:
    from multipanda_py.cell import Cell

OK, FAILED, INTERRUPTED = 0, 1, 130


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_events(cell: Cell) -> None:
    """Print the events of a loop since the last call."""
    for event in cell.events():
        say(f"event: {event}")


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def check_output(
    path: Path, *suffixes: str, option: str = "--output", beside: Iterable[str | Path | None] = ()
) -> Path:
    """Return where a file is to go, for commands that take minutes until they write it.

    Args:
        path: Of the file.
        suffixes: Those that it may have, in small letters; any if none is named.
        option: That gave it.
        beside: Files of the same command, read or written, which it may not be.

    Raises:
        ConfigurationError: If it has none of the suffixes, if any are named, or is a folder or
            one of the other files, or nothing can be written there.
    """
    folder = path.absolute().parent
    allowed = " ".join(("a file", " or ".join(suffixes))).strip()
    wrong = f"{option}: got {path}, allowed {allowed} in a folder that is there"
    if path.is_dir():
        raise ConfigurationError(f"{wrong}: it is a folder itself")
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigurationError(f"{wrong}: its suffix is {path.suffix!r}")
    if not folder.is_dir():
        raise ConfigurationError(f"{wrong}: there is no folder {folder}")
    if any(other and _is_same(path, Path(other)) for other in beside):
        raise ConfigurationError(
            f"{option}: got {path}, which this command has another use for; allowed another file"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(f"{option}: got {path}, which may not be written")
    return path


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are of one file, there or not."""
    return os.path.realpath(one) == os.path.realpath(other)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
