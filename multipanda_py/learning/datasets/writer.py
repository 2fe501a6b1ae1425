# SPDX-License-Identifier: Apache-2.0
"""Writer that adds complete episodes to a data set."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import DatasetRejected
from multipanda_py.files import replacing
from multipanda_py.learning.datasets.features import (
    ACTION_KEY,
    SCALARS,
    Features,
    Stats,
    combined_stats,
    stats_of,
)
from multipanda_py.learning.datasets.reader import (
    DATA_PATH,
    EXTRA_METADATA_FILE,
    FORMAT_VERSION,
    INFO_FILE,
    MAX_CHUNK_FILES,
    RECORDING_FOLDER,
    STATS_FILE,
    TASKS_FILE,
    VIDEO_PATH,
    count_episodes,
    data_file,
    episode_file,
    file_location,
    missing_metadata_file,
    read_info,
    read_json,
    read_tasks,
    stats_in,
    summary_of,
    video_file,
    write_json,
)
from multipanda_py.registry import needed


def write_numbers(
    folder: Path,
    features: Features,
    episode: int,
    table: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> None:
    """Write the data file of an episode: its n frames without images.

    Args:
        folder: Folder of the data set.
        features: Contents of the frames.
        episode: Number of the episode.
        table: Vectors, (n, k), and scalars, (n,), by key of the LeRobot format.
        metadata: Metadata of the episode.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    fields, arrays = [], []
    for key, names in features.vectors.items():
        kind = arrow.list_(arrow.float32(), len(names))
        flat = arrow.array(np.asarray(table[key], np.float32).reshape(-1))
        fields.append((key, kind))
        arrays.append(arrow.FixedSizeListArray.from_arrays(flat, len(names)))
    for key, name in SCALARS.items():
        fields.append((key, getattr(arrow, "bool_" if name == "bool" else name)()))
        arrays.append(arrow.array(np.asarray(table[key]).astype(name)))
    schema = arrow.schema(fields, metadata={"multipanda_episode": json.dumps(dict(metadata))})
    path = data_file(folder, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        parquet.write_table(arrow.Table.from_arrays(arrays, schema=schema), partial)


def write_episode(
    folder: Path,
    features: Features,
    episode: int,
    task: str,
    rows: tuple[int, int],
    stats: Mapping[str, Stats],
) -> None:
    """Write the metadata file that marks an episode as complete.

    Args:
        folder: Folder of the data set.
        features: Contents of the frames.
        episode: Number of the episode.
        task: Instruction of the task.
        rows: First frame of the episode, and first frame after it, as indices over all episodes.
        stats: Statistics of the frames, by key of the LeRobot format.
    """
    arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    start, end = rows
    row: dict[str, Any] = {"episode_index": episode, "tasks": [task], "length": end - start}
    row |= {f"data/{key}": value for key, value in file_location(episode).items()}
    row |= {"dataset_from_index": start, "dataset_to_index": end}
    for video in features.video_keys:
        row |= {f"videos/{video}/{key}": value for key, value in file_location(episode).items()}
        row[f"videos/{video}/from_timestamp"] = 0.0
        row[f"videos/{video}/to_timestamp"] = (end - start) / features.fps
    row |= {
        f"stats/{key}/{name}": value.tolist()
        for key, result in stats.items()
        for name, value in result.items()
    }
    row |= {f"meta/episodes/{key}": value for key, value in file_location(episode).items()}
    path = episode_file(folder, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        parquet.write_table(arrow.Table.from_pylist([row]), partial)


def write_tasks(folder: Path, tasks: list[str]) -> None:
    """Write the file of task instructions; the index in ``tasks`` is the ``task_index``."""
    pandas = needed("pandas")
    frame = pandas.DataFrame(
        {"task_index": np.arange(len(tasks))},
        index=pandas.Index(tasks, name="task"),
    )
    with replacing(folder / TASKS_FILE) as partial:
        frame.to_parquet(partial)


class DatasetWriter:
    """Writer that adds episodes to a data set in a folder, which is created if it is missing.

    When a folder is opened, files of an incomplete episode are removed.

    Args:
        folder: Folder of the data set.
        features: Contents of the frames.
        extra_metadata: Metadata that LeRobot does not define, such as ``arms`` and ``control``.

    Attributes:
        count: Number of episodes.

    Raises:
        DatasetRejected: If the folder contains other files or a data set with other arms, control,
            rate or features. Also if it cannot be created, or another writer uses it.
    """

    def __init__(
        self, folder: Path, features: Features, extra_metadata: Mapping[str, Any]
    ) -> None:
        self.folder, self.features = folder, features
        self._extra_metadata = dict(extra_metadata)
        self._claim = _locked_folder(folder)
        self._release = weakref.finalize(self, os.close, self._claim)
        try:
            self._open()
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        folder = self.folder
        if any(folder.iterdir()):
            self._check_same_metadata()
        else:
            write_json(folder, EXTRA_METADATA_FILE, self._extra_metadata)
        self.count = count_episodes(folder)
        self._check_no_metadata_lost()
        with self._rejecting_os_errors():
            self._remove_interrupted_files()
        self._tasks = read_tasks(folder) if (folder / TASKS_FILE).exists() else []
        self._stats = [stats_in(folder, k) for k in range(self.count)]
        self._lengths = [summary_of(folder, k)["length"] for k in range(self.count)]
        with self._rejecting_os_errors():
            self._write_summary()

    def start_episode(self) -> Path:
        """Return an empty folder for the videos of an episode.

        Raises:
            DatasetRejected: If the data set was moved or removed, or is read-only.
        """
        self._check_unmoved_and_writable()
        with self._rejecting_os_errors():
            shutil.rmtree(self.folder / RECORDING_FOLDER, ignore_errors=True)
            (self.folder / RECORDING_FOLDER).mkdir()
        return self.folder / RECORDING_FOLDER

    def add(
        self,
        columns: Mapping[str, Any],
        videos: Mapping[str, tuple[Path, Stats]],
        task: str,
        metadata: Mapping[str, Any],
    ) -> int:
        """Add an episode of n frames.

        Args:
            columns: Vectors, (n, k), and scalars, (n,), by key of the LeRobot format.
            videos: Video file, which is moved into the data set, and statistics of its images, by
                key of the camera.
            task: Instruction of the task.
            metadata: Metadata of the episode, stored with its frames.

        Returns:
            Number of the episode.

        Raises:
            DatasetRejected: If the episode has no frames, or the data set was moved or removed, or
                is read-only.
        """
        if not len(columns[ACTION_KEY]):
            raise DatasetRejected("episode: got no frames, allowed one or more")
        self._check_unmoved_and_writable()
        with self._rejecting_os_errors():
            return self._add(columns, videos, task, metadata)

    def _add(
        self,
        columns: Mapping[str, Any],
        videos: Mapping[str, tuple[Path, Stats]],
        task: str,
        metadata: Mapping[str, Any],
    ) -> int:
        episode, length = self.count, len(columns[ACTION_KEY])
        if task not in self._tasks:
            self._tasks.append(task)
            write_tasks(self.folder, self._tasks)
        first = sum(self._lengths)
        table = dict(columns) | {
            "timestamp": np.arange(length) / self.features.fps,
            "frame_index": np.arange(length),
            "episode_index": np.full(length, episode),
            "index": np.arange(first, first + length),
            "task_index": np.full(length, self._tasks.index(task)),
        }
        stats = {key: stats_of(value) for key, value in table.items()}
        stats |= {key: result for key, (_, result) in videos.items()}
        for key, (path, _) in videos.items():
            target = video_file(self.folder, key, episode)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        write_numbers(self.folder, self.features, episode, table, metadata)
        write_episode(self.folder, self.features, episode, task, (first, first + length), stats)
        self.count += 1
        self._stats.append(stats)
        self._lengths.append(length)
        self._write_summary()
        self._remove_interrupted_files()
        return episode

    def close(self) -> None:
        """Release the folder for other writers. Repeated calls have no effect."""
        self._release()

    def discard(self) -> None:
        """Remove the folder that :meth:`start_episode` has returned."""
        shutil.rmtree(self.folder / RECORDING_FOLDER, ignore_errors=True)

    def remove_last(self) -> None:
        """Remove the last episode. In an empty data set, the call has no effect.

        Raises:
            DatasetRejected: If the data set was moved or removed, or is read-only.
        """
        if not self.count:
            return
        self._check_unmoved_and_writable()
        with self._rejecting_os_errors():
            self.count -= 1
            self._stats.pop()
            self._lengths.pop()
            # The summary is written before the episode is deleted. After a crash in between, it
            # must not count an episode without files.
            self._write_summary()
            episode_file(self.folder, self.count).unlink()
            self._remove_interrupted_files()

    def _check_unmoved_and_writable(self) -> None:
        try:
            there = os.path.samestat(os.stat(self.folder), os.fstat(self._claim))
        except OSError:
            there = False
        last = self.count - 1
        parts = [video_file(self.folder, key, last) for key in self.features.video_keys]
        parts = [
            self.folder / EXTRA_METADATA_FILE,
            *([*parts, data_file(self.folder, last)] if self.count else ()),
        ]
        if not there or not all(part.exists() for part in parts):
            raise DatasetRejected(
                f"{self.folder}: was moved, removed or emptied since it was opened. Open it at "
                "its current path with a new recorder."
            )
        if not os.access(self.folder, os.W_OK):
            raise DatasetRejected(f"{self.folder}: has become read-only. Make it writable.")

    @contextmanager
    def _rejecting_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DatasetRejected(
                f"{self.folder}: cannot be written: {error.strerror or error}"
            ) from None

    def _check_same_metadata(self) -> None:
        there = read_json(self.folder, EXTRA_METADATA_FILE)
        for key in ("arms", "control", "fps"):
            if there.get(key) != self._extra_metadata.get(key):
                raise DatasetRejected(
                    f"{self.folder}: {key}: got {self._extra_metadata.get(key)}, but the data set "
                    f"has {there.get(key)}. Use another folder."
                )
        if (self.folder / INFO_FILE).exists():
            known = read_info(self.folder)["features"]
            differing = [
                key
                for key, feature in self.features.described().items()
                if known.get(key) != feature
            ] + [key for key in known if key not in self.features.described()]
            if differing:
                raise DatasetRejected(
                    f"{self.folder}: the new frames differ from the recorded ones in "
                    f"{', '.join(differing)}. Use another folder."
                )

    def _check_no_metadata_lost(self) -> None:
        # A new episode would overwrite the data of an episode whose metadata file was lost.
        there = (self.folder / INFO_FILE).exists()
        expected = read_info(self.folder)["total_episodes"] if there else 0
        if lost := missing_metadata_file(self.folder, self.count, expected):
            raise DatasetRejected(
                f"{lost}: is missing, but episode {self.count} or later ones have data. Restore "
                "the data set or use another folder."
            )

    def _remove_interrupted_files(self) -> None:
        data_file(self.folder, self.count).unlink(missing_ok=True)
        for key in self.features.video_keys:
            video_file(self.folder, key, self.count).unlink(missing_ok=True)
        shutil.rmtree(self.folder / RECORDING_FOLDER, ignore_errors=True)

    def _write_summary(self) -> None:
        info = {
            "codebase_version": FORMAT_VERSION,
            "robot_type": "+".join(self.features.robot.values()),
            "total_episodes": self.count,
            "total_frames": sum(self._lengths),
            "total_tasks": len(self._tasks),
            "chunks_size": MAX_CHUNK_FILES,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": self.features.fps,
            "splits": {"train": f"0:{self.count}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self.features.video_keys else None,
            "features": self.features.described(),
        }
        if self._stats:
            keys = self._stats[0]
            stats = {key: combined_stats([of[key] for of in self._stats]) for key in keys}
            shown = {
                key: {name: value.tolist() for name, value in result.items()}
                for key, result in stats.items()
            }
            write_json(self.folder, STATS_FILE, shown)
        write_json(self.folder, INFO_FILE, info)


def _locked_folder(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DatasetRejected(f"{folder}: cannot be used as a folder: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise DatasetRejected(
            f"{folder}: another recorder is using it. Call its close() first."
        ) from None
    return descriptor
