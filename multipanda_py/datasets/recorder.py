# SPDX-License-Identifier: Apache-2.0
"""Episodes of an environment, recorded while somebody acts in it."""

from __future__ import annotations

import operator
import time
from collections import deque
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.moment import RecordedMoment
from multipanda_py.config.fingerprint import fingerprint
from multipanda_py.datasets.features import (
    ACTION,
    IMAGES,
    PICTURE_TIME,
    TIME,
    features_of,
    numbers_of,
)
from multipanda_py.datasets.film import FilmWriter
from multipanda_py.datasets.statistics import PictureStats
from multipanda_py.datasets.writer import DatasetWriter
from multipanda_py.exceptions import DatasetRefused
from multipanda_py.extras import VERSION
from multipanda_py.gym.env import CellEnv
from multipanda_py.gym.observation import Observation
from multipanda_py.machine.closing import Closing
from multipanda_py.view.rendering import Image

MOST_UNFILMED = 300
"""Frames whose pictures may wait for each other in memory."""
_Frame: TypeAlias = tuple[Observation, dict[str, Any], RecordedMoment | None]
"""What was seen, what else there was to say, and from what its pictures are still to be drawn."""


class EpisodeRecorder(Closing):
    """Act in an environment through this, and have each episode kept or thrown away.

    A frame is what was seen, and the action that answered it. While the program is late by more
    than a tenth of a second nobody acts: frames of these instants have what the loop recorded
    then, and the action that changes nothing. Nothing of an episode is in the data set before
    :meth:`end`; a program that dies loses the episode that runs, and no other.

    Args:
        env: Where episodes are; it is not closed with the recorder.
        folder: Of the data set; one that is there goes on if it is of the same arms.
        instruction: What is to be done, in a sentence, for policies that read.

    Attributes:
        held: Frames of the episode at whose instants nobody acted.
        env: Environment of the episodes.

    Raises:
        DatasetRefused: If the folder has something else, or episodes of other arms, or has lost
            some, another recorder adds to it, or the instruction is no text.
        ConfigurationError: If the rate is no whole number, or pictures have odd sides.

    Thread: one, that of the environment.
    """

    def __init__(self, env: CellEnv, folder: str | Path, *, instruction: str) -> None:
        self.env, self._instruction = env, _checked_words(instruction)
        features = features_of(env)
        ours = dict(env.arguments) | {
            "arms": dict(features.robot),
            "fps": features.fps,
            "cell": fingerprint(env.cell.config),
            "version": VERSION,
        }
        self._writer = DatasetWriter(Path(folder), features, ours)
        self._films: dict[str, tuple[FilmWriter, Path, PictureStats]] = {}
        self._rows: dict[str, list[Any]] = {}
        self._unfilmed: deque[tuple[dict[str, Image], RecordedMoment | None]] = deque()
        self._drawing = 0.0
        self._is_running, self._has_ended, self._is_kept = False, False, False
        self._seed, self._is_closed, self.held = 0, False, 0
        self._seen: Observation = {}
        self._info: dict[str, Any] = {}
        self._numbers = np.random.default_rng()

    @property
    def count(self) -> int:
        """Episodes that are kept."""
        return self._writer.count

    @property
    def is_running(self) -> bool:
        """Whether an episode has begun, and not been ended or thrown away."""
        return self._is_running

    def begin(self, seed: int | None = None) -> tuple[Observation, dict[str, Any]]:
        """Reset the environment and begin an episode.

        Args:
            seed: Of the episode; drawn, and kept with it, if none is given.

        Raises:
            DatasetRefused: If one is running, or the seed is no whole number from 0.
        """
        if self._is_closed:
            raise DatasetRefused("begin: the recorder is closed, allowed before close")
        if self._is_running:
            raise DatasetRefused("begin: an episode is running, allowed after end or discard")
        self.discard()  # of an episode whose environment could not be reset
        self._seed = int(self._numbers.integers(2**31)) if seed is None else _checked_seed(seed)
        features, folder = self._writer.features, self._writer.begin()
        for name, (height, width) in features.cameras.items():
            path = folder / f"{name}.mp4"
            film = FilmWriter(path, height, width, features.fps)
            self._films[name] = film, path, PictureStats(features.fps)
        # Last, as arms that move do not wait for encoders to start.
        self._seen, self._info = self.env.reset(seed=self._seed)
        self._rows, self._is_running, self._has_ended, self._is_kept = {}, True, False, False
        self.held = 0
        return self._seen, self._info

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act for one step, as the environment does; what was seen before is recorded with it.

        Raises:
            DatasetRefused: If no episode is running, or this one is over.
            ActionRejected: If the environment refuses the action; nothing is recorded.
        """
        if not self._is_running or self._has_ended:
            raise DatasetRefused(
                f"step: {'the episode is over' if self._is_running else 'no episode is running'}, "
                "allowed after begin"
            )
        frames: list[_Frame] = [(self._seen, self._info, None)]
        before, hold = self._seen, self.env.hold_action()
        result = self.env.step(action)
        self._seen, reward, ends, cut, self._info = result
        for moment in self.env.past.left_out():  # before the action came
            seen, info = self.env.past.seen(moment)
            for arm in self.env.controls:
                seen[arm]["target"] = before[arm]["target"]
            frames.append((seen, info, moment))
        for k, frame in enumerate(frames, start=1):
            self._keep(frame, action if k == len(frames) else hold, reward)
        self.held += len(frames) - 1
        self._rows["next.done"][-1] = self._has_ended = ends or cut
        self._film(waits=True)
        return result

    def _keep(self, frame: _Frame, action: ArrayLike, reward: float) -> None:
        """Add the numbers of a frame; its pictures are for :meth:`_film`."""
        seen, info, moment = frame
        row = numbers_of(self.env, seen) | {
            ACTION: np.asarray(action, np.float32),
            "next.reward": reward,
            "next.done": False,
            "next.success": self._info["is_success"],
            TIME: info["time"],
            PICTURE_TIME: info.get("picture_time", info["time"]),
        }
        for key, value in row.items():
            self._rows.setdefault(key, []).append(value)
        if self._films:
            self._unfilmed.append((seen.get("images", {}), moment))

    def _film(self, waits: bool) -> None:
        """Add pictures to the films, in their order.

        Args:
            waits: Whether those that are still to be drawn wait for a step that leaves time:
                drawn at once, a stall would make itself longer.
        """
        while self._unfilmed:
            images, moment = self._unfilmed[0]
            if moment is not None:
                waits = waits and len(self._unfilmed) < MOST_UNFILMED
                if waits and self.env.past.slack < 2.0 * self._drawing:
                    return
                begun = time.monotonic()
                images = {**images, **self.env.past.drawn(moment)}
                self._drawing = time.monotonic() - begun
            self._unfilmed.popleft()
            for name, (film, _, stats) in self._films.items():
                film.add(images[name])
                stats.add(images[name])

    def end(self, success: bool | None = None) -> int:
        """Keep the episode.

        Args:
            success: Whether it is what was wanted; None for what the task says.

        Returns:
            Its number.

        Raises:
            DatasetRefused: If none is running, it has no steps, or the success is neither True
                nor False; it then goes on.
        """
        if success is not None and not isinstance(success, (bool, np.bool_)):
            raise DatasetRefused(f"end: success: got {success!r:.40}, allowed True, False or None")
        if not self._is_running or not self._rows:
            raise DatasetRefused("end: no episode with steps is running, allowed after step")
        rows = self._rows
        self._film(waits=False)
        if success is not None:
            rows["next.success"][-1] = bool(success)
        rows["next.done"][-1] = True
        facts = {
            "success": bool(rows["next.success"][-1]),
            "seed": self._seed,
            "fault": self._info.get("fault", ""),
        }
        self._is_running = False
        films = {}
        for name, (film, path, stats) in self._films.items():
            film.close()
            films[IMAGES + name] = path, stats.result()
        columns = {key: np.array(values) for key, values in rows.items()}
        self._films = {}
        number = self._writer.add(columns, films, self._instruction, facts)
        self._is_kept = True
        return number

    def discard(self) -> None:
        """Throw the running episode away; does nothing if none is running."""
        self._is_running = False
        self._unfilmed.clear()
        for film, _, _ in self._films.values():
            film.close()
        self._films = {}
        self._writer.forget()

    def redo(self) -> tuple[Observation, dict[str, Any]]:
        """Begin the episode anew from the same seed, instead of this one or of the last one kept.

        Raises:
            DatasetRefused: If this recorder has not begun any.
        """
        if not self._info:
            raise DatasetRefused("redo: no episode was begun, allowed after begin")
        if self._is_running:
            self.discard()
        elif self._is_kept:
            self._writer.take_back()
        return self.begin(self._seed)

    def close(self) -> None:
        """Throw a running episode away, and let others add; what was kept is whole already."""
        if not self._is_closed:
            self.discard()
            self._is_closed = True
            self._writer.close()


def _checked_seed(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise DatasetRefused(f"begin: seed: got {seed!r:.40}, allowed a whole number from 0")
    return number


def _checked_words(instruction: Any) -> str:
    try:
        instruction.encode()
    except (AttributeError, UnicodeError):
        raise DatasetRefused(f"instruction: got {instruction!r:.40}, allowed a text") from None
    return str(instruction)
