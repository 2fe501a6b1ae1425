# SPDX-License-Identifier: Apache-2.0
"""Episodes of an environment, recorded while somebody acts in it."""

from __future__ import annotations

import operator
import subprocess
import time
from collections import deque
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.history import RecordedMoment
from multipanda_py.config.cell_file import fingerprint
from multipanda_py.exceptions import DatasetRefused
from multipanda_py.learning.datasets.features import (
    ACTION,
    IMAGES,
    PICTURE_TIME,
    TIME,
    PictureStats,
    features_of,
    numbers_of,
)
from multipanda_py.learning.datasets.writer import DatasetWriter
from multipanda_py.learning.gym.env import CellEnv
from multipanda_py.learning.gym.spaces import Observation
from multipanda_py.realtime.system.child_process import Closing
from multipanda_py.registry import VERSION, needed
from multipanda_py.simulation.rendering import Image

WAITING = 120
"""Pictures that may wait; then :meth:`FilmWriter.add` waits for the encoder."""
_OPTIONS = ["-crf", "20", "-preset", "veryfast", "-g", "2", "-bf", "0", "-threads", "1"]
"""Every second picture stands for itself, so that any of them is found at once."""


class FilmWriter(Closing):
    """Write pictures to an MP4 file, H.264 in 4:2:0, at a constant rate.

    Args:
        path: Of the file, whose folder is there.
        height: Of pictures [pixels], even.
        width: Likewise.
        fps: Pictures a second.

    Attributes:
        count: Pictures that were given.

    Thread: one gives pictures, another one of its own encodes them.
    """

    def __init__(self, path: Path, height: int, width: int, fps: int) -> None:
        self._path, self._shape, self.count = path, (height, width, 3), 0
        self._writer = needed("imageio_ffmpeg").write_frames(
            str(path), (width, height), fps=fps, codec="libx264", quality=None,
            pix_fmt_out="yuv420p", macro_block_size=2, output_params=_OPTIONS,
        )  # fmt: skip
        self._writer.send(None)  # starts the encoder
        self._queue: Queue[Image | None] = Queue(WAITING)
        self._error: OSError | None = None
        self._thread: Thread | None = Thread(target=self._encode, name=path.name, daemon=True)
        self._thread.start()

    def add(self, image: Image) -> None:
        """Add a picture, (height, width, 3).

        Raises:
            DatasetRefused: If it has another shape, or the encoder has ended.
        """
        if image.shape != self._shape:
            raise DatasetRefused(
                f"{self._path.name}: got a picture of {image.shape}, allowed {self._shape}"
            )
        self._check()
        self._queue.put(np.ascontiguousarray(image, np.uint8))
        self.count += 1

    def close(self) -> None:
        """Wait until all is encoded, and finish the file.

        Raises:
            DatasetRefused: If the encoder had ended before.
        """
        if self._thread is None:
            return
        if not self.count:  # the encoder complains of films of nothing, which nobody keeps
            self._queue.put(np.zeros(self._shape, np.uint8))
        self._queue.put(None)
        self._thread.join()
        self._thread = None
        self._check()

    def _encode(self) -> None:
        while (image := self._queue.get()) is not None:
            if self._error is None:
                self._try(image)
        self._try(None)

    def _try(self, image: Image | None) -> None:
        try:
            if image is None:
                self._writer.close()
            else:
                self._writer.send(image)
        except OSError as error:
            self._error = error

    def _check(self) -> None:
        if self._error is not None:
            raise DatasetRefused(f"{self._path}: the encoder has ended: {self._error}")


def count_pictures(path: Path) -> int:
    """Return how many pictures a film has.

    Raises:
        DatasetRefused: If it is not there, or cut.
    """
    if not path.exists():
        raise DatasetRefused(f"{path}: the film is not there")
    try:
        count, _ = needed("imageio_ffmpeg").count_frames_and_secs(str(path))
    except (RuntimeError, OSError, ValueError):
        raise DatasetRefused(f"{path}: cannot be read as a film, maybe cut") from None
    return int(count)


def damage(path: Path) -> str:
    """Say what keeps pictures of a film from being as they were, or nothing; decodes all of it."""
    line = [needed("imageio_ffmpeg").get_ffmpeg_exe(), "-v", "error", "-xerror", "-i", str(path)]
    done = subprocess.run([*line, "-f", "null", "-"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    why = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
    return f"{path}: has a picture that is damaged: {why}"


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
