# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multipanda_py.exceptions import ConfigurationError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file beside another one, which takes its place if nothing is raised within.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    if not path.name or path.is_dir():
        raise ConfigurationError(f"{path}: cannot be written: got a folder, allowed a file")
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def save_figure(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a figure of matplotlib whole or not at all, in the format of the file's suffix.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi, format=path.suffix[1:].lower())
