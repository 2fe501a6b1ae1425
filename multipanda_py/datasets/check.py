# SPDX-License-Identifier: Apache-2.0
"""Whether a data set is whole, and what is wrong with it if not."""

from __future__ import annotations

import numpy as np

from multipanda_py.datasets.features import ACTION, STATE, TIME
from multipanda_py.datasets.film import count_pictures, damage
from multipanda_py.datasets.layout import (
    DATA_PATH,
    INFO,
    RUNNING,
    STATS,
    data_file,
    film_file,
    missing_word,
    read_json,
)
from multipanda_py.datasets.reader import Dataset, Episode, read_tasks
from multipanda_py.exceptions import DatasetRefused

MAX_SKEW = 0.010
"""How far a frame may be from its instant [s]."""


def check(dataset: Dataset) -> list[str]:
    """Return all faults of a data set, in sentences; none if it is whole."""
    faults = []
    told = dataset.info["total_episodes"]
    lost = missing_word(dataset.folder, len(dataset), told)
    if lost is not None:
        faults.append(
            f"{lost.relative_to(dataset.folder)}: is not there; episodes from {len(dataset)} on "
            "are not seen without it, and nothing is recorded to this folder"
        )
    elif told != len(dataset):
        faults.append(f"{INFO}: {told} episodes, but {len(dataset)} are there")
    first = 0
    for number in range(len(dataset)):
        try:
            episode = dataset[number]
        except DatasetRefused as error:
            faults.append(str(error))
            continue
        faults += [f"episode {number}: {fault}" for fault in _faults(dataset, episode, first)]
        first += len(episode)
    if not faults and dataset.info["total_frames"] != first:
        faults.append(
            f"meta/info.json: {dataset.info['total_frames']} frames, but {first} are there"
        )
    if len(dataset):
        try:
            read_json(dataset.folder, STATS)
        except DatasetRefused as error:
            faults.append(str(error))
    return faults + (_rest(dataset) if lost is None else [])


def _faults(dataset: Dataset, episode: Episode, first: int) -> list[str]:
    faults = []
    length = len(episode)
    if not np.array_equal(episode["index"], np.arange(first, first + length)):
        faults.append(f"index does not count on from {first}")
    if not np.array_equal(episode["frame_index"], np.arange(length)):
        faults.append("frame_index does not count from 0")
    if not (np.diff(episode[TIME]) > 0.0).all():
        faults.append(f"{TIME} does not grow")
    faults += [
        f"{key} has numbers that are not finite"
        for key in (STATE, ACTION)
        if not np.isfinite(episode[key]).all()
    ]
    if episode.skew > MAX_SKEW:
        faults.append(
            f"a frame is {1e3 * episode.skew:.1f} ms from its instant, allowed "
            f"{1e3 * MAX_SKEW:.0f} ms"
        )
    if not set(episode["task_index"]) <= set(range(len(read_tasks(dataset.folder)))):
        faults.append("task_index names no task")
    for key in dataset.films:
        film = film_file(dataset.folder, key, episode.number)
        try:
            count = count_pictures(film)
        except DatasetRefused as error:
            faults.append(str(error))
            continue
        if count != length:
            faults.append(f"{key} has {count} pictures, but there are {length} frames")
        elif damaged := damage(film):
            faults.append(damaged)
    return faults


def _rest(dataset: Dataset) -> list[str]:
    """Say what other readers would take for episodes."""
    there = {data_file(dataset.folder, number) for number in range(len(dataset))}
    pattern = DATA_PATH.partition("/")[0] + "/*/*.parquet"
    faults = [
        f"{path.relative_to(dataset.folder)}: left of an episode that was broken off; the next "
        "recording removes it"
        for path in sorted(set(dataset.folder.glob(pattern)) - there)
    ]
    if (dataset.folder / RUNNING).exists():
        faults.append(
            f"{RUNNING}: an episode is being recorded, or was broken off; the next recording "
            "removes it"
        )
    return faults
