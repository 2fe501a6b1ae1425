# SPDX-License-Identifier: Apache-2.0
"""What a file of weights holds, looked at before it is believed."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.regular_file import open_regular

LARGEST = 1 << 26
"""Of all arrays of a file together [bytes]; those of seven joints are 150 kB."""
FASTEST = 1e6
"""Largest number of states a second."""
UNREADABLE = (
    EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError, MemoryError,
    OverflowError,
)  # fmt: skip
"""What numpy, zipfile and json raise of damaged files, besides ValueError and KeyError."""


def arrays_in(path: Path) -> dict[str, Any]:
    """Return what a file of numpy has, none of which is run or larger than sense.

    Raises:
        OSError, ValueError: And others of :data:`UNREADABLE`.
    """
    with open_regular(path, LARGEST) as file:  # numpy advises to trust what is no npz
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("no npz, or cut")
        with zipfile.ZipFile(file) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > LARGEST:
            raise ValueError(f"got {size} bytes, allowed {LARGEST}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as data:
            found = {name: data[name] for name in data.files}
    if others := [name for name, part in found.items() if not isinstance(part, np.ndarray)]:
        raise ValueError(f"got {', '.join(others)}, allowed arrays only")
    return found


def check_about(path: Path, about: Any, formats: tuple[int, ...]) -> None:
    """Refuse what a file says of itself if it is of other kinds than it is to be.

    Raises:
        ConfigurationError: With what was got.
    """
    if not isinstance(about, dict):
        raise ConfigurationError(f"{path}: about: got {about!r:.60}, allowed names with values")
    if (form := about.get("format")) not in formats:
        known = " or ".join(map(str, formats))
        raise ConfigurationError(f"{path}: got format {form!r:.60}, allowed {known}")
    for name in ("kind", "robot", "data"):
        if not isinstance(given := about.get(name, ""), str):
            raise ConfigurationError(f"{path}: {name}: got {given!r:.60}, allowed a text")
    rate, joints = about.get("rate", 1.0), about.get("joints", [])
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or abs(rate) > FASTEST:
        raise ConfigurationError(
            f"{path}: rate: got {rate!r:.60}, allowed a number up to {FASTEST:g}"
        )
    if not isinstance(joints, list) or not all(isinstance(one, str) for one in joints):
        raise ConfigurationError(f"{path}: joints: got {joints!r:.60}, allowed names")
