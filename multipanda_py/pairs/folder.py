# SPDX-License-Identifier: Apache-2.0
"""The folder of a data set: a file per motion, and what they are of."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import VERSION
from multipanda_py.files.regular_file import open_regular, read_text
from multipanda_py.machine.whole_file import replacing
from multipanda_py.pairs.recording import AlignedPair
from multipanda_py.residual.weights_archive import UNREADABLE
from multipanda_py.state import Matrix

TABLE, RECORDED = "pairs.parquet", "recorded"
Name = tuple[str, int]


def packed(pair: AlignedPair | None, joints: int, said: str) -> bytes:
    """Return what the file of a motion has; no pair is one that was left out."""
    rows: dict[str, Any] = {side: np.zeros((0, 3 * joints)) for side in ("twin", "plant")}
    starts = [0, 0, 0]
    if pair is not None:
        rows = {"twin": pair.twin, "plant": pair.plant}
        starts = [pair.twin_start, pair.plant_start, pair.shift_by_correlation]
        starts += [pair.twin_told, pair.plant_told]
    written = io.BytesIO()
    np.savez_compressed(written, starts=starts, said=said, **rows)
    return written.getvalue()


class Folder:
    """Motions that were recorded, each a file that is there whole or not at all.

    Args:
        path: Made if it is not there.
        names: Of all motions that there are to be.
        key: What they are of; a folder of anything else is refused.

    Attributes:
        path: As given.

    Raises:
        ConfigurationError: If it has motions of something else, or cannot be written.
    """

    def __init__(self, path: Path, names: Sequence[Name], key: Sequence[object]) -> None:
        self.path, parts = path, path / RECORDED
        _claim(path, parts, hashlib.sha256(json.dumps(key).encode()).hexdigest())
        self._files = {name: parts / f"{name[0]}-{name[1]:05d}.npz" for name in names}

    def __len__(self) -> int:
        return len(self._files)

    def left(self) -> list[Name]:
        """Return the motions that are not there yet."""
        return [name for name, file in self._files.items() if not file.is_file()]

    def put(self, name: Name, data: bytes) -> None:
        """Write the file of a motion."""
        with replacing(self._files[name]) as partial:
            partial.write_bytes(data)

    def pair(self, name: Name) -> AlignedPair:
        """Return what was recorded of a motion; without rows if it was left out."""
        data = self._read(name)
        return AlignedPair(data["twin"], data["plant"], *map(int, data["starts"]))

    def kept(self) -> list[Name]:
        """Return the motions that were not left out."""
        return [name for name in self._files if len(self._read(name)["twin"])]

    def said(self, name: Name) -> str:
        """Return what is to be said of a motion."""
        return str(self._read(name)["said"])

    def first_said(self) -> str:
        """Return what is to be said of the first one."""
        return self.said(next(iter(self._files)))

    def _read(self, name: Name) -> dict[str, Matrix]:
        file = self._files[name]
        try:
            with open_regular(file) as opened, np.load(opened, allow_pickle=False) as data:
                found = {key: data[key] for key in data.files}
            lost = {"twin", "plant", "starts", "said"}.difference(found)
        except (*UNREADABLE, OSError, ValueError):
            lost = {"what was written"}
        if lost:
            raise ConfigurationError(
                f"{file}: was cut or changed: lacks {min(lost)}; without the file its motion is "
                "recorded again"
            )
        return found


def key_of(*parts: object) -> list[object]:
    """Return what a folder is claimed with."""
    return [*parts, VERSION]


def _claim(folder: Path, parts: Path, key: str) -> None:
    """Make the folder, or see that what is in it belongs to this data set."""
    mark = parts / "key.txt"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(parts.glob("*.npz")):
            raise ConfigurationError(
                f"{folder}: has motions, but {mark.name}, which says whose they are, is not "
                "there; allowed another folder"
            )
        if not mark.exists():
            with replacing(mark) as partial:
                partial.write_text(key, encoding="utf-8")
        other = read_text(mark) != key
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be written: {error.strerror}") from None
    if other:
        raise ConfigurationError(
            f"{folder}: has motions of another cell, plant, arm, seed, margin, law or version; "
            "allowed another folder"
        )
