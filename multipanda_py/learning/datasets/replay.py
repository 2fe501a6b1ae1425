# SPDX-License-Identifier: Apache-2.0
"""Checks of a data set, and replay of an episode with a comparison of the tool positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.exceptions import DatasetRejected
from multipanda_py.learning.datasets.features import ACTION_KEY, STATE_KEY, TIME_KEY, features_of
from multipanda_py.learning.datasets.reader import (
    DATA_PATH,
    INFO_FILE,
    RECORDING_FOLDER,
    STATS_FILE,
    Dataset,
    Episode,
    data_file,
    missing_metadata_file,
    read_json,
    read_tasks,
    video_file,
)
from multipanda_py.learning.datasets.recorder import count_frames, damage
from multipanda_py.learning.gym.env import CellEnv

MAX_SKEW = 0.010
"""Deviation of a frame from its nominal time above which :func:`check` reports it [s]."""


def check(dataset: Dataset) -> list[str]:
    """Return a message for every fault of a data set, such as missing frames."""
    faults = []
    expected = dataset.info["total_episodes"]
    lost = missing_metadata_file(dataset.folder, len(dataset), expected)
    if lost is not None:
        faults.append(
            f"{lost.relative_to(dataset.folder)}: is missing; episodes from {len(dataset)} on "
            "are not readable without it, and this folder accepts no new episodes"
        )
    elif expected != len(dataset):
        faults.append(
            f"{INFO_FILE}: total_episodes is {expected}, but {len(dataset)} episodes exist"
        )
    first = 0
    for number in range(len(dataset)):
        try:
            episode = dataset[number]
        except DatasetRejected as error:
            faults.append(str(error))
            continue
        faults += [f"episode {number}: {fault}" for fault in _faults(dataset, episode, first)]
        first += len(episode)
    if not faults and dataset.info["total_frames"] != first:
        faults.append(
            f"meta/info.json: total_frames is {dataset.info['total_frames']}, but {first} frames "
            "exist"
        )
    if len(dataset):
        try:
            read_json(dataset.folder, STATS_FILE)
        except DatasetRejected as error:
            faults.append(str(error))
    return faults + (_interrupted_files(dataset) if lost is None else [])


def _faults(dataset: Dataset, episode: Episode, first: int) -> list[str]:
    faults = []
    length = len(episode)
    if not np.array_equal(episode["index"], np.arange(first, first + length)):
        faults.append(f"index does not continue from {first}")
    if not np.array_equal(episode["frame_index"], np.arange(length)):
        faults.append("frame_index does not count from 0")
    if not (np.diff(episode[TIME_KEY]) > 0.0).all():
        faults.append(f"{TIME_KEY} does not increase")
    faults += [
        f"{key} contains values that are not finite"
        for key in (STATE_KEY, ACTION_KEY)
        if not np.isfinite(episode[key]).all()
    ]
    if episode.skew > MAX_SKEW:
        faults.append(
            f"a frame deviates from its nominal time by {1e3 * episode.skew:.1f} ms, allowed "
            f"{1e3 * MAX_SKEW:.0f} ms"
        )
    if not set(episode["task_index"]) <= set(range(len(read_tasks(dataset.folder)))):
        faults.append("task_index names no task")
    for key in dataset.video_keys:
        video = video_file(dataset.folder, key, episode.number)
        try:
            count = count_frames(video)
        except DatasetRejected as error:
            faults.append(str(error))
            continue
        if count != length:
            faults.append(f"{key} has {count} images, but there are {length} frames")
        elif damaged := damage(video):
            faults.append(damaged)
    return faults


def _interrupted_files(dataset: Dataset) -> list[str]:
    there = {data_file(dataset.folder, number) for number in range(len(dataset))}
    pattern = DATA_PATH.partition("/")[0] + "/*/*.parquet"
    faults = [
        f"{path.relative_to(dataset.folder)}: left by an interrupted episode; the next recording "
        "removes it"
        for path in sorted(set(dataset.folder.glob(pattern)) - there)
    ]
    if (dataset.folder / RECORDING_FOLDER).exists():
        faults.append(
            f"{RECORDING_FOLDER}: an episode is being recorded or was interrupted; the next "
            f"recording "
            "removes it"
        )
    return faults


@dataclass(frozen=True)
class Replayed:
    """Result of a replay.

    Attributes:
        apart: Maximum distance between replayed and recorded tool position, by arm [m].
        success: True if the task was successful at the end.
        frames: Number of replayed frames; less than recorded if the environment ended the episode.
        fault: Faults of arms at the end as text, empty without faults.
    """

    apart: dict[str, float]
    success: bool
    frames: int
    fault: str


def check_fits(dataset: Dataset, env: CellEnv) -> None:
    """Check that an environment can execute the actions of a data set.

    Raises:
        DatasetRejected: If arms, control, rate or component names of actions and states differ.
    """
    features = features_of(env)
    here = {
        "arms": dict(features.robot),
        "control": env.arguments["control"],
        "fps": features.fps,
    }
    for key, value in here.items():
        if dataset.extra_metadata.get(key) != value:
            raise DatasetRejected(
                f"{dataset.folder}: recorded with {key} {dataset.extra_metadata.get(key)}, "
                f"but the environment has {value}"
            )
    for key in (ACTION_KEY, STATE_KEY):
        recorded = dataset.info["features"].get(key, {}).get("names")
        if recorded != list(features.vectors[key]):
            raise DatasetRejected(
                f"{dataset.folder}: {key}: components differ from those of the environment. Use "
                "the environment of the recording."
            )


def replay(dataset: Dataset, number: int, env: CellEnv) -> Replayed:
    """Reset an environment with the seed of a recorded episode, and execute its actions again.

    In lockstep, the episode is identical to the recorded one. In real time, the arms execute the
    same actions from their start configuration. **Real arms MOVE.**

    Args:
        dataset: Data set with the episode.
        number: Number of the episode, from 0.
        env: Environment with the arms, control and rate of the data set.

    Returns:
        Comparison with the recorded episode.

    Raises:
        DatasetRejected: If arms, control or rate of the environment differ.
        MultipandaError: If the environment fails.
    """
    check_fits(dataset, env)
    episode = dataset[number]
    obs, info = env.reset(seed=episode.metadata.get("seed"))
    names = dataset.info["features"][STATE_KEY]["names"]
    apart = dict.fromkeys(env.controls, 0.0)
    frames = 0
    for frame, action in enumerate(episode[ACTION_KEY]):
        for arm in apart:
            there = _tool(episode, names, arm, frame)
            here = np.asarray(obs[arm]["pose"][:3], float)
            apart[arm] = max(apart[arm], float(np.linalg.norm(here - there)))
        obs, _, ends, _, info = env.step(action)
        frames += 1
        if ends:
            break
    return Replayed(apart, bool(info["is_success"]), frames, str(info["fault"]))


def _tool(episode: Episode, names: list[str], arm: str, frame: int) -> np.ndarray:
    first = names.index(f"{arm}.pose.0")
    return np.asarray(episode[STATE_KEY][frame, first : first + 3], float)
