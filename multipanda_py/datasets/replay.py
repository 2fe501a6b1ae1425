# SPDX-License-Identifier: Apache-2.0
"""An episode done again: the same actions, and how far tools were from where they had been."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.datasets.features import ACTION, STATE, features_of
from multipanda_py.datasets.reader import Dataset, Episode
from multipanda_py.exceptions import DatasetRefused
from multipanda_py.gym.env import CellEnv


@dataclass(frozen=True)
class Replayed:
    """What came of doing an episode again.

    Attributes:
        apart: How far a tool was from where it had been at that frame, at most, by arm [m].
        success: Whether the task was done at the end.
        frames: How many were done; fewer than the episode has if the environment ended it.
        fault: Of an arm, in words.
    """

    apart: dict[str, float]
    success: bool
    frames: int
    fault: str


def check_fits(dataset: Dataset, env: CellEnv) -> None:
    """Raise if the actions of a data set mean something else, or nothing, in an environment.

    Raises:
        DatasetRefused: If arms, control, rate or names of actions and states differ.
    """
    features = features_of(env)
    here = {
        "arms": dict(features.robot),
        "control": env.arguments["control"],
        "fps": features.fps,
    }
    for key, value in here.items():
        if dataset.ours.get(key) != value:
            raise DatasetRefused(
                f"{dataset.folder}: recorded with {key} {dataset.ours.get(key)}, "
                f"but the environment has {value}"
            )
    for key in (ACTION, STATE):
        recorded = dataset.info["features"].get(key, {}).get("names")
        if recorded != list(features.vectors[key]):
            raise DatasetRefused(
                f"{dataset.folder}: other numbers in {key} than those of the environment"
            )


def replay(dataset: Dataset, number: int, env: CellEnv) -> Replayed:
    """Do an episode again, from the same seed.

    In lockstep that is the same episode; on arms that move in real time it is the same actions
    from where the arms start. **Real arms MOVE.**

    Raises:
        DatasetRefused: If the environment is not of the same arms, control and rate.
        MultipandaError: As the environment's.
    """
    check_fits(dataset, env)
    episode = dataset[number]
    seen, info = env.reset(seed=episode.facts.get("seed"))
    names = dataset.info["features"][STATE]["names"]
    apart = dict.fromkeys(env.controls, 0.0)
    frames = 0
    for frame, action in enumerate(episode[ACTION]):
        for arm in apart:
            there = _tool(episode, names, arm, frame)
            here = np.asarray(seen[arm]["pose"][:3], float)
            apart[arm] = max(apart[arm], float(np.linalg.norm(here - there)))
        seen, _, ends, _, info = env.step(action)
        frames += 1
        if ends:
            break
    return Replayed(apart, bool(info["is_success"]), frames, str(info["fault"]))


def _tool(episode: Episode, names: list[str], arm: str, frame: int) -> np.ndarray:
    first = names.index(f"{arm}.pose.0")
    return np.asarray(episode[STATE][frame, first : first + 3], float)
