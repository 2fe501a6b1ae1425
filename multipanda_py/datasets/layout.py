# SPDX-License-Identifier: Apache-2.0
"""Where the files of a data set are: LeRobotDataset v3.0, an episode a file.

The format allows several episodes in a file and any number of files. One each is what makes an
episode whole or absent, whatever ends the program that writes it.
Source: LeRobot's documentation of LeRobotDataset v3.0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from multipanda_py.exceptions import DatasetRefused
from multipanda_py.files.regular_file import MAX_DESCRIPTION, read_text
from multipanda_py.machine.whole_file import replacing

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
