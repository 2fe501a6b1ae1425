# SPDX-License-Identifier: Apache-2.0
"""Episodes of a data set, read as arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import DatasetRefused
from multipanda_py.files import MAX_DESCRIPTION, MAX_RECORDING, check_regular, read_text, replacing
from multipanda_py.learning.datasets.features import PICTURE_TIME, SCALARS, TIME, Stats
from multipanda_py.registry import needed

VERSION = "v3.0"
"""Of the format."""
CHUNK = 1000
"""Files in a folder."""
INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
OURS = "meta/multipanda.json"
"""What the format has no place for: arms, control, cell."""
RUNNING = "running"
"""Folder of the films of the episode that is being recorded."""
_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA_PATH = f"data/{_FILE}.parquet"
VIDEO_PATH = "videos/{video_key}/" + f"{_FILE}.mp4"
EPISODE_PATH = f"meta/episodes/{_FILE}.parquet"
_ANY = "{}/chunk-*/file-*.parquet"


def place(episode: int) -> dict[str, int]:
    """Return number of folder and file of an episode, as the format calls them."""
    return {"chunk_index": episode // CHUNK, "file_index": episode % CHUNK}


def data_file(folder: Path, episode: int) -> Path:
    """Return where the numbers of an episode are."""
    return folder / DATA_PATH.format(**place(episode))


def episode_file(folder: Path, episode: int) -> Path:
    """Return where it is said that an episode is there; written last."""
    return folder / EPISODE_PATH.format(**place(episode))


def film_file(folder: Path, key: str, episode: int) -> Path:
    """Return where the pictures of a camera are, ``observation.images.NAME``."""
    return folder / VIDEO_PATH.format(video_key=key, **place(episode))


def count_episodes(folder: Path) -> int:
    """Return how many episodes there are, without a gap from the first one."""
    count = 0
    while episode_file(folder, count).exists():
        count += 1
    return count


def missing_word(folder: Path, count: int, told: int) -> Path | None:
    """Return the file whose loss hides episodes that are there, or None.

    The writer makes the word that an episode is there last and removes it first, and one at a
    time: what it leaves when it is killed is of episode ``count`` and no other.

    Args:
        folder: Of the data set.
        count: Episodes without a gap from the first one.
        told: How many there are by :data:`INFO`.
    """
    words = {episode_file(folder, number) for number in range(count)}
    numbers = {data_file(folder, number) for number in range(count + 1)}
    hidden = {*folder.glob(_ANY.format("meta/episodes"))} - words
    hidden |= {*folder.glob(_ANY.format("data"))} - numbers
    return episode_file(folder, count) if hidden or told > count else None


def read_info(folder: Path) -> dict[str, Any]:
    """Return what :data:`INFO` holds, of which the names and kinds that are read are checked.

    Raises:
        DatasetRefused: If it is not there, cut, or not of this format.
    """
    info = read_json(folder, INFO)
    version = info.get("codebase_version")
    if version != VERSION:
        raise DatasetRefused(f"{folder}: version {version!r:.40} of the format, allowed {VERSION}")
    features = info.get("features")
    if not isinstance(features, dict) or not all(
        isinstance(one, dict) and isinstance(one.get("dtype"), str) for one in features.values()
    ):
        raise DatasetRefused(f"{folder / INFO}: features: allowed a dtype by name of a column")
    for key, least in (("total_episodes", 0), ("total_frames", 0), ("fps", 1)):
        value = info.get(key)
        if not isinstance(value, int) or value < least:
            raise DatasetRefused(
                f"{folder / INFO}: {key}: got {value!r:.40}, allowed a whole number from {least}"
            )
    return info


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return what a JSON file holds, by name.

    Raises:
        DatasetRefused: If it is not there, cut, or has something else than names.
    """
    try:
        content = json.loads(read_text(folder / name, MAX_DESCRIPTION))
    except OSError as error:
        raise DatasetRefused(
            f"{folder}: not a data set: {name} cannot be read: {error.strerror}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DatasetRefused(f"{folder / name}: not JSON, maybe cut: {error}") from None
    if not isinstance(content, dict):
        raise DatasetRefused(f"{folder / name}: got {content!r:.40}, allowed values by name")
    return content


def write_json(folder: Path, name: str, content: Any) -> None:
    """Write a JSON file whole or not at all."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


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
