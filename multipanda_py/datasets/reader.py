# SPDX-License-Identifier: Apache-2.0
"""Episodes of a data set, read as arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.datasets.features import PICTURE_TIME, SCALARS, TIME
from multipanda_py.datasets.layout import (
    OURS,
    TASKS,
    count_episodes,
    data_file,
    episode_file,
    read_info,
    read_json,
)
from multipanda_py.datasets.statistics import Stats
from multipanda_py.exceptions import DatasetRefused
from multipanda_py.extras import needed
from multipanda_py.files.regular_file import MAX_RECORDING, check_regular


@dataclass(frozen=True, eq=False)
class Episode:
    """What was recorded from a beginning to an end.

    Attributes:
        number: From 0.
        columns: Vectors, (n, k), and scalars, (n,), by key of the format.
        facts: ``success``, ``seed`` and what else was said of it.
        task: What was to be done.
    """

    number: int
    columns: Mapping[str, Any]
    facts: Mapping[str, Any]
    task: str

    def __len__(self) -> int:
        return len(self.columns["index"])

    def __getitem__(self, key: str) -> Any:
        """Return a column."""
        return self.columns[key]

    @property
    def skew(self) -> float:
        """How far a frame or its pictures were from their instant at most [s].

        On the cell's clock; the first frame is at its instant by definition.
        """
        begin = self.columns[TIME][0]
        nominal = np.asarray(self.columns["timestamp"], float)
        late = [self.columns[key] - begin - nominal for key in (TIME, PICTURE_TIME)]
        return float(np.abs(late).max())


_NEEDED = ("task", "control", "rate", "things", "features", "arms", "fps")
"""What every recorder writes of an environment."""


class Dataset:
    """Read the episodes that a folder has; what is broken off behind them does no harm.

    Args:
        folder: Of the data set.

    Attributes:
        info: ``meta/info.json``.
        ours: What the format has no place for: arms, control, and what made the environment.

    Raises:
        DatasetRefused: If it is none, of another version, or not recorded by this package.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.info = read_info(self.folder)
        if not (self.folder / OURS).exists():
            raise DatasetRefused(
                f"{folder}: {OURS} is not there: allowed data sets that this package recorded"
            )
        self.ours = read_json(self.folder, OURS)
        if missing := [key for key in _NEEDED if key not in self.ours]:
            raise DatasetRefused(
                f"{folder}: {OURS} has no {', '.join(missing)}: it was cut or edited"
            )
        self._count = count_episodes(self.folder)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Episode]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, number: int) -> Episode:
        """Return an episode.

        Raises:
            DatasetRefused: If there is none of that number, or its file is cut.
        """
        if not 0 <= number < len(self):
            raise DatasetRefused(
                f"{self.folder}: got episode {number}, allowed 0 to {len(self) - 1}"
                if len(self)
                else f"{self.folder}: has no episodes"
            )
        table = _table(data_file(self.folder, number))
        columns: dict[str, Any] = {}
        for key, feature in self.info["features"].items():
            if feature["dtype"] == "video":
                continue
            if key not in table.column_names:
                raise DatasetRefused(f"{data_file(self.folder, number)}: has no column {key}")
            column = table[key].combine_chunks()
            if key not in SCALARS:
                column = column.flatten()
            values = column.to_numpy(zero_copy_only=False)
            columns[key] = values if key in SCALARS else values.reshape(len(table), -1)
        facts = (table.schema.metadata or {}).get(b"multipanda_episode", b"{}")
        summary = summary_of(self.folder, number)
        if summary["length"] != len(table):
            raise DatasetRefused(
                f"{data_file(self.folder, number)}: got {len(table)} frames, "
                f"but {summary['length']} were recorded"
            )
        return Episode(number, columns, json.loads(facts), summary["tasks"][0])

    @property
    def films(self) -> tuple[str, ...]:
        """Keys of the cameras."""
        return tuple(k for k, v in self.info["features"].items() if v["dtype"] == "video")


def summary_of(folder: Path, episode: int) -> dict[str, Any]:
    """Return what ``meta/episodes`` says of an episode, without statistics."""
    row: dict[str, Any] = _table(episode_file(folder, episode)).to_pylist()[0]
    return {key: value for key, value in row.items() if not key.startswith("stats/")}


def stats_in(folder: Path, episode: int) -> dict[str, Stats]:
    """Return the statistics of an episode, by key of the format."""
    row = _table(episode_file(folder, episode)).to_pylist()[0]
    found: dict[str, Stats] = {}
    for column, value in row.items():
        if column.startswith("stats/"):
            _, key, name = column.split("/")
            found.setdefault(key, {})[name] = np.array(value)
    return found


def read_tasks(folder: Path) -> list[str]:
    """Return what was to be done, by ``task_index``."""
    rows = _table(folder / TASKS).to_pylist()
    return [row["task"] for row in sorted(rows, key=lambda row: int(row["task_index"]))]


def _table(path: Path) -> Any:
    """Return a table of a parquet file.

    Raises:
        DatasetRefused: If it is not there, or cut.
    """
    arrow = needed("pyarrow")
    try:
        check_regular(path, MAX_RECORDING)
        return needed("pyarrow.parquet").ParquetFile(path).read()
    except (arrow.ArrowException, OSError) as error:
        words = " ".join(str(error).split())
        reason = f"maybe cut: {words}" if path.exists() else "it is not there"
        raise DatasetRefused(f"{path}: cannot be read: {reason}") from None
