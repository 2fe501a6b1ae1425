# SPDX-License-Identifier: Apache-2.0
"""Reader of episode data sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import DatasetRejected
from multipanda_py.files import (
    MAX_DESCRIPTION_SIZE,
    MAX_RECORDING_SIZE,
    check_regular,
    read_text,
    replacing,
)
from multipanda_py.learning.datasets.features import IMAGE_TIME_KEY, SCALARS, TIME_KEY, Stats
from multipanda_py.registry import needed

FORMAT_VERSION = "v3.0"
"""Version of the LeRobot format."""
MAX_CHUNK_FILES = 1000
"""Maximum number of files in a folder of a data set."""
INFO_FILE, STATS_FILE, TASKS_FILE = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
EXTRA_METADATA_FILE = "meta/multipanda.json"
"""File for metadata that the LeRobot format does not have: arms, control and cell."""
RECORDING_FOLDER = "running"
"""Folder of the videos of the episode that is being recorded."""
_FILE_PATTERN = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA_PATH = f"data/{_FILE_PATTERN}.parquet"
VIDEO_PATH = "videos/{video_key}/" + f"{_FILE_PATTERN}.mp4"
EPISODE_PATH = f"meta/episodes/{_FILE_PATTERN}.parquet"
_ANY_FILE_PATTERN = "{}/chunk-*/file-*.parquet"


def file_location(episode: int) -> dict[str, int]:
    """Return the indices of folder and file of an episode, by key of the LeRobot format."""
    return {"chunk_index": episode // MAX_CHUNK_FILES, "file_index": episode % MAX_CHUNK_FILES}


def data_file(folder: Path, episode: int) -> Path:
    """Return the path of the file with the frames of an episode, without images."""
    return folder / DATA_PATH.format(**file_location(episode))


def episode_file(folder: Path, episode: int) -> Path:
    """Return the path of the metadata file that marks an episode as complete."""
    return folder / EPISODE_PATH.format(**file_location(episode))


def video_file(folder: Path, key: str, episode: int) -> Path:
    """Return the path of the video of a camera ``observation.images.NAME`` in an episode."""
    return folder / VIDEO_PATH.format(video_key=key, **file_location(episode))


def count_episodes(folder: Path) -> int:
    """Return the number of complete episodes before the first gap."""
    count = 0
    while episode_file(folder, count).exists():
        count += 1
    return count


def missing_metadata_file(folder: Path, count: int, expected: int) -> Path | None:
    """Return the path of the metadata file of episode ``count`` if it was lost, else None.

    It was lost if there are files of later episodes, or :data:`INFO_FILE` counts more episodes.

    Args:
        folder: Folder of the data set.
        count: Number of complete episodes, see :func:`count_episodes`.
        expected: Number of episodes in :data:`INFO_FILE`.
    """
    words = {episode_file(folder, number) for number in range(count)}
    # A data file of episode ``count`` alone is left from an interrupted recording.
    numbers = {data_file(folder, number) for number in range(count + 1)}
    hidden = {*folder.glob(_ANY_FILE_PATTERN.format("meta/episodes"))} - words
    hidden |= {*folder.glob(_ANY_FILE_PATTERN.format("data"))} - numbers
    return episode_file(folder, count) if hidden or expected > count else None


def read_info(folder: Path) -> dict[str, Any]:
    """Return the checked contents of :data:`INFO_FILE`.

    Raises:
        DatasetRejected: If the file is missing or truncated, or its format version or a value is
            wrong.
    """
    info = read_json(folder, INFO_FILE)
    version = info.get("codebase_version")
    if version != FORMAT_VERSION:
        raise DatasetRejected(
            f"{folder}: got format version {version!r:.40}, allowed {FORMAT_VERSION}"
        )
    features = info.get("features")
    if not isinstance(features, dict) or not all(
        isinstance(one, dict) and isinstance(one.get("dtype"), str) for one in features.values()
    ):
        raise DatasetRejected(
            f"{folder / INFO_FILE}: features: allowed a mapping in which each feature has a dtype"
        )
    for key, min_value in (("total_episodes", 0), ("total_frames", 0), ("fps", 1)):
        value = info.get(key)
        if not isinstance(value, int) or value < min_value:
            raise DatasetRejected(
                f"{folder / INFO_FILE}: {key}: got {value!r:.40}, allowed whole numbers of "
                f"{min_value} or more"
            )
    return info


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        DatasetRejected: If the file is missing, truncated or not a JSON object.
    """
    try:
        content = json.loads(read_text(folder / name, MAX_DESCRIPTION_SIZE))
    except OSError as error:
        raise DatasetRejected(
            f"{folder}: not a data set: {name} cannot be read: {error.strerror}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DatasetRejected(f"{folder / name}: not JSON, possibly truncated: {error}") from None
    if not isinstance(content, dict):
        raise DatasetRejected(f"{folder / name}: got {content!r:.40}, allowed a JSON object")
    return content


def write_json(folder: Path, name: str, content: Any) -> None:
    """Write a JSON file atomically."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Episode:
    """Recorded episode.

    Attributes:
        number: Number of the episode, from 0.
        columns: Vectors, (n, k), and scalars, (n,), of the n frames, by key of the LeRobot format.
        metadata: Metadata such as ``success`` and ``seed``.
        task: Instruction of the task.
    """

    number: int
    columns: Mapping[str, Any]
    metadata: Mapping[str, Any]
    task: str

    def __len__(self) -> int:
        return len(self.columns["index"])

    def __getitem__(self, key: str) -> Any:
        """Return the column with this key of the LeRobot format."""
        return self.columns[key]

    @property
    def skew(self) -> float:
        """Maximum deviation of the recorded times of numbers and images from nominal times [s]."""
        start = self.columns[TIME_KEY][0]
        nominal = np.asarray(self.columns["timestamp"], float)
        late = [self.columns[key] - start - nominal for key in (TIME_KEY, IMAGE_TIME_KEY)]
        return float(np.abs(late).max())


_REQUIRED_METADATA = ("task", "control", "rate", "objects", "features", "arms", "fps")
"""Metadata that every recorder writes."""


_FORMER_COLUMNS = {"picture_time": IMAGE_TIME_KEY}
"""Columns of older data sets, with their present names."""
_FORMER_CONTROLS = {
    "pose_step": "delta_pose",
    "pose_step_force": "delta_pose_force",
    "joint_step": "delta_joints",
}


def _rename_former_keys(about: dict[str, Any]) -> dict[str, Any]:
    if "things" in about:
        about["objects"] = about.pop("things")
    control = about.get("control")
    if isinstance(control, str):
        about["control"] = _FORMER_CONTROLS.get(control, control)
    return about


class Dataset:
    """Data set in a folder, as a sequence of its complete episodes.

    Args:
        folder: Folder of the data set.

    Attributes:
        info: Contents of ``meta/info.json``.
        extra_metadata: Metadata that LeRobot does not define: robot models by arm, and arguments
            of the environment.

    Raises:
        DatasetRejected: If the folder is not a data set, has another version, or was not recorded
            by this package.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.info = read_info(self.folder)
        if not (self.folder / EXTRA_METADATA_FILE).exists():
            raise DatasetRejected(
                f"{folder}: {EXTRA_METADATA_FILE} is missing. Use a data set recorded by this "
                f"package."
            )
        self.extra_metadata = _rename_former_keys(read_json(self.folder, EXTRA_METADATA_FILE))
        if missing := [key for key in _REQUIRED_METADATA if key not in self.extra_metadata]:
            raise DatasetRejected(
                f"{folder}: {EXTRA_METADATA_FILE}: truncated or edited: lacks {', '.join(missing)}"
            )
        self._count = count_episodes(self.folder)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Episode]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, number: int) -> Episode:
        """Read an episode, by its number from 0.

        Raises:
            DatasetRejected: If the episode does not exist or its file is truncated.
        """
        if not 0 <= number < len(self):
            raise DatasetRejected(
                f"{self.folder}: got episode {number}, allowed 0 to {len(self) - 1}"
                if len(self)
                else f"{self.folder}: contains no episodes"
            )
        table = _read_table(data_file(self.folder, number))
        columns: dict[str, Any] = {}
        for key, feature in self.info["features"].items():
            if feature["dtype"] == "video":
                continue
            if key not in table.column_names:
                raise DatasetRejected(f"{data_file(self.folder, number)}: has no column {key}")
            column = table[key].combine_chunks()
            if _FORMER_COLUMNS.get(key, key) not in SCALARS:
                column = column.flatten()
            values = column.to_numpy(zero_copy_only=False)
            name = _FORMER_COLUMNS.get(key, key)
            columns[name] = values if name in SCALARS else values.reshape(len(table), -1)
        facts = (table.schema.metadata or {}).get(b"multipanda_episode", b"{}")
        summary = summary_of(self.folder, number)
        if summary["length"] != len(table):
            raise DatasetRejected(
                f"{data_file(self.folder, number)}: got {len(table)} frames, "
                f"but {summary['length']} were recorded"
            )
        return Episode(number, columns, json.loads(facts), summary["tasks"][0])

    @property
    def video_keys(self) -> tuple[str, ...]:
        """Keys of the cameras in the LeRobot format, such as ``observation.images.NAME``."""
        return tuple(k for k, v in self.info["features"].items() if v["dtype"] == "video")


def summary_of(folder: Path, episode: int) -> dict[str, Any]:
    """Return the metadata of an episode without the statistics, by column of its metadata file."""
    row: dict[str, Any] = _read_table(episode_file(folder, episode)).to_pylist()[0]
    return {key: value for key, value in row.items() if not key.startswith("stats/")}


def stats_in(folder: Path, episode: int) -> dict[str, Stats]:
    """Return the statistics of an episode by key of the LeRobot format."""
    row = _read_table(episode_file(folder, episode)).to_pylist()[0]
    stats: dict[str, Stats] = {}
    for column, value in row.items():
        if column.startswith("stats/"):
            _, key, name = column.split("/")
            stats.setdefault(key, {})[name] = np.array(value)
    return stats


def read_tasks(folder: Path) -> list[str]:
    """Return the task instructions of a data set, in the order of ``task_index``."""
    rows = _read_table(folder / TASKS_FILE).to_pylist()
    return [row["task"] for row in sorted(rows, key=lambda row: int(row["task_index"]))]


def _read_table(path: Path) -> Any:
    arrow = needed("pyarrow")
    try:
        check_regular(path, MAX_RECORDING_SIZE)
        return needed("pyarrow.parquet").ParquetFile(path).read()
    except (arrow.ArrowException, OSError) as error:
        words = " ".join(str(error).split())
        reason = f"possibly truncated: {words}" if path.exists() else "it is missing"
        raise DatasetRejected(f"{path}: cannot be read: {reason}") from None
