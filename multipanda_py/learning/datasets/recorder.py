# SPDX-License-Identifier: Apache-2.0
"""Recording of environment episodes to a data set."""

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

from multipanda_py.cell.state_reader import HistorySnapshot
from multipanda_py.config.cell_file import fingerprint
from multipanda_py.exceptions import DatasetRejected
from multipanda_py.learning.datasets.features import (
    ACTION_KEY,
    IMAGE_PREFIX,
    IMAGE_TIME_KEY,
    TIME_KEY,
    ImageStats,
    features_of,
    observation_vectors,
)
from multipanda_py.learning.datasets.writer import DatasetWriter
from multipanda_py.learning.gym.env import CellEnv
from multipanda_py.learning.gym.spaces import Observation
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.registry import VERSION, needed
from multipanda_py.simulation.rendering import Image

MAX_QUEUED_IMAGES = 120
"""Maximum number of queued images. With a full queue, :meth:`EpisodeVideoWriter.add` blocks."""
_ENCODER_OPTIONS = ["-crf", "20", "-preset", "veryfast", "-g", "2", "-bf", "0", "-threads", "1"]
"""Encoder options. Every second image is a key frame, for fast random access."""


class EpisodeVideoWriter(Closeable):
    """Writer of an MP4 video in H.264 4:2:0 at a constant rate.

    Args:
        path: Path of the video in an existing folder.
        height: Height of the images [pixels], even.
        width: Width of the images [pixels], even.
        fps: Images per second.

    Attributes:
        count: Number of added images.

    Thread: one thread adds images, and an internal thread encodes them.
    """

    def __init__(self, path: Path, height: int, width: int, fps: int) -> None:
        self._path, self._shape, self.count = path, (height, width, 3), 0
        self._writer = needed("imageio_ffmpeg").write_frames(
            str(path), (width, height), fps=fps, codec="libx264", quality=None,
            pix_fmt_out="yuv420p", macro_block_size=2, output_params=_ENCODER_OPTIONS,
        )  # fmt: skip
        # This call starts the encoder, which then accepts images.
        self._writer.send(None)
        self._queue: Queue[Image | None] = Queue(MAX_QUEUED_IMAGES)
        self._error: OSError | None = None
        self._thread: Thread | None = Thread(target=self._encode, name=path.name, daemon=True)
        self._thread.start()

    def add(self, image: Image) -> None:
        """Add an image, (height, width, 3).

        Raises:
            DatasetRejected: If the shape differs or the encoder has ended.
        """
        if image.shape != self._shape:
            raise DatasetRejected(
                f"{self._path.name}: got an image of shape {image.shape}, allowed {self._shape}"
            )
        self._check()
        self._queue.put(np.ascontiguousarray(image, np.uint8))
        self.count += 1

    def close(self) -> None:
        """Finish encoding and close the file.

        Raises:
            DatasetRejected: If the encoder has failed.
        """
        if self._thread is None:
            return
        # The encoder fails without images, so an empty video gets a black image.
        if not self.count:
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
            raise DatasetRejected(f"{self._path}: the encoder has ended: {self._error}")


def count_frames(path: Path) -> int:
    """Return the number of images of a video.

    Raises:
        DatasetRejected: If the file is missing or truncated.
    """
    if not path.exists():
        raise DatasetRejected(f"{path}: this video is missing")
    try:
        count, _ = needed("imageio_ffmpeg").count_frames_and_secs(str(path))
    except (RuntimeError, OSError, ValueError):
        raise DatasetRejected(f"{path}: cannot be read as a video, possibly truncated") from None
    return int(count)


def damage(path: Path) -> str:
    """Return a message if an image of a video cannot be decoded, else an empty text."""
    line = [needed("imageio_ffmpeg").get_ffmpeg_exe(), "-v", "error", "-xerror", "-i", str(path)]
    done = subprocess.run([*line, "-f", "null", "-"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    reason = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
    return f"{path}: contains a damaged image: {reason}"


MAX_QUEUED_FRAMES = 300
"""Number of frames with images to render from which they are rendered even if steps are late."""
_Frame: TypeAlias = tuple[Observation, dict[str, Any], HistorySnapshot | None]
"""Observation, info, and the recorded state for rendering its images later."""


class EpisodeRecorder(Closeable):
    """Recorder of an environment's episodes, each of which is kept or discarded.

    A frame consists of an observation and the action that follows it. A crash loses only the
    running episode.

    In real time, steps are missed if :meth:`step` is called more than 0.1 s too late. Each missed
    step gets a frame with the state that the loop has recorded and :meth:`.CellEnv.hold_action`.

    Args:
        env: Environment of the episodes. Closing the recorder does not close it.
        folder: Folder of the data set. An existing data set of the same arms is extended.
        instruction: Task instruction for language-conditioned policies.

    Attributes:
        held: Number of frames for missed steps in the episode.
        env: Environment of the episodes.

    Raises:
        DatasetRejected: If the folder contains other files, episodes of other arms or incomplete
            data, another recorder uses it, or the instruction is not a text.
        ConfigurationError: If the rate is not an integer, or images have an odd height or width.

    Thread: one, that of the environment.
    """

    def __init__(self, env: CellEnv, folder: str | Path, *, instruction: str) -> None:
        self.env, self._instruction = env, _checked_words(instruction)
        features = features_of(env)
        extra_metadata = dict(env.arguments) | {
            "arms": dict(features.robot),
            "fps": features.fps,
            "cell": fingerprint(env.cell.config),
            "version": VERSION,
        }
        self._writer = DatasetWriter(Path(folder), features, extra_metadata)
        self._videos: dict[str, tuple[EpisodeVideoWriter, Path, ImageStats]] = {}
        self._rows: dict[str, list[Any]] = {}
        self._unrendered: deque[tuple[dict[str, Image], HistorySnapshot | None]] = deque()
        self._render_duration = 0.0
        self._is_running, self._has_ended, self._is_saved = False, False, False
        self._seed, self._is_closed, self.held = 0, False, 0
        self._obs: Observation = {}
        self._info: dict[str, Any] = {}
        self._random = np.random.default_rng()

    @property
    def count(self) -> int:
        """Number of episodes in the data set, including those of earlier recorders."""
        return self._writer.count

    @property
    def is_running(self) -> bool:
        """True from :meth:`start_episode` until the episode is ended or discarded."""
        return self._is_running

    def start_episode(self, seed: int | None = None) -> tuple[Observation, dict[str, Any]]:
        """Reset the environment and begin an episode.

        Args:
            seed: Seed of the episode. By default a random seed, which is stored in the episode.

        Returns:
            Observation and info of the reset.

        Raises:
            DatasetRejected: If an episode is running, or the seed is not a non-negative integer.
        """
        if self._is_closed:
            raise DatasetRejected("start_episode: the recorder is closed. Create a new one.")
        if self._is_running:
            raise DatasetRejected(
                "start_episode: an episode is running. Call end or discard first."
            )
        self.discard()  # A failed reset leaves the videos of its episode.
        self._seed = int(self._random.integers(2**31)) if seed is None else _checked_seed(seed)
        features, folder = self._writer.features, self._writer.start_episode()
        for name, (height, width) in features.cameras.items():
            path = folder / f"{name}.mp4"
            video = EpisodeVideoWriter(path, height, width, features.fps)
            self._videos[name] = video, path, ImageStats(features.fps)
        # The encoders start before the reset, so that the first step need not wait for them.
        self._obs, self._info = self.env.reset(seed=self._seed)
        self._rows, self._is_running, self._has_ended, self._is_saved = {}, True, False, False
        self.held = 0
        return self._obs, self._info

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Record the present observation with an action, and step the environment with it.

        Returns:
            Result of :meth:`.CellEnv.step`.

        Raises:
            DatasetRejected: If no episode is running, or the episode has ended.
            ActionRejected: If the environment rejects the action. No frame is recorded.
        """
        if not self._is_running or self._has_ended:
            raise DatasetRejected(
                f"step: {'the episode has ended' if self._is_running else 'no episode is running'}"
                ". Call start_episode first."
            )
        frames: list[_Frame] = [(self._obs, self._info, None)]
        before, hold = self._obs, self.env.hold_action()
        result = self.env.step(action)
        self._obs, reward, ends, cut, self._info = result
        # Add frames of the steps missed before this action, with states recorded by the loop.
        for moment in self.env.missed_steps.left_out():
            obs, info = self.env.missed_steps.observation(moment)
            for arm in self.env.controls:
                obs[arm]["target"] = before[arm]["target"]
            frames.append((obs, info, moment))
        for k, frame in enumerate(frames, start=1):
            self._add_frame(frame, action if k == len(frames) else hold, reward)
        self.held += len(frames) - 1
        self._rows["next.done"][-1] = self._has_ended = ends or cut
        self._write_images(may_defer=True)
        return result

    def _add_frame(self, frame: _Frame, action: ArrayLike, reward: float) -> None:
        obs, info, moment = frame
        row = observation_vectors(self.env, obs) | {
            ACTION_KEY: np.asarray(action, np.float32),
            "next.reward": reward,
            "next.done": False,
            "next.success": self._info["is_success"],
            TIME_KEY: info["time"],
            IMAGE_TIME_KEY: info.get("image_time", info["time"]),
        }
        for key, value in row.items():
            self._rows.setdefault(key, []).append(value)
        if self._videos:
            self._unrendered.append((obs.get("images", {}), moment))

    def _write_images(self, may_defer: bool) -> None:
        # ``may_defer``: leave images of missed steps to a later call if the next step is due soon.
        while self._unrendered:
            images, moment = self._unrendered[0]
            if moment is not None:
                may_defer = may_defer and len(self._unrendered) < MAX_QUEUED_FRAMES
                if may_defer and self.env.missed_steps.slack < 2.0 * self._render_duration:
                    return
                started = time.monotonic()
                images = {**images, **self.env.missed_steps.drawn(moment)}
                self._render_duration = time.monotonic() - started
            self._unrendered.popleft()
            for name, (video, _, stats) in self._videos.items():
                video.add(images[name])
                stats.add(images[name])

    def end(self, success: bool | None = None) -> int:
        """End the running episode and add it to the data set.

        Args:
            success: True if the episode succeeded. None uses the result of the task.

        Returns:
            Number of the episode.

        Raises:
            DatasetRejected: If no episode with steps is running, or ``success`` has a wrong type.
                The episode is then not ended.
        """
        if success is not None and not isinstance(success, (bool, np.bool_)):
            raise DatasetRejected(
                f"end: success: got {success!r:.40}, allowed True, False or None"
            )
        if not self._is_running or not self._rows:
            raise DatasetRejected("end: no episode with steps is running. Call step first.")
        rows = self._rows
        self._write_images(may_defer=False)
        if success is not None:
            rows["next.success"][-1] = bool(success)
        rows["next.done"][-1] = True
        metadata = {
            "success": bool(rows["next.success"][-1]),
            "seed": self._seed,
            "fault": self._info.get("fault", ""),
        }
        self._is_running = False
        videos = {}
        for name, (video, path, stats) in self._videos.items():
            video.close()
            videos[IMAGE_PREFIX + name] = path, stats.result()
        columns = {key: np.array(values) for key, values in rows.items()}
        self._videos = {}
        number = self._writer.add(columns, videos, self._instruction, metadata)
        self._is_saved = True
        return number

    def discard(self) -> None:
        """Discard the running episode; no effect without one."""
        self._is_running = False
        self._unrendered.clear()
        for video, _, _ in self._videos.values():
            video.close()
        self._videos = {}
        self._writer.discard()

    def redo(self) -> tuple[Observation, dict[str, Any]]:
        """Discard the running episode, or remove the last one, and start with the same seed.

        Returns:
            Observation and info of the reset.

        Raises:
            DatasetRejected: If this recorder has not begun an episode.
        """
        if not self._info:
            raise DatasetRejected("redo: no episode was begun. Call start_episode first.")
        if self._is_running:
            self.discard()
        elif self._is_saved:
            self._writer.remove_last()
        return self.start_episode(self._seed)

    def close(self) -> None:
        """Discard a running episode and release the folder for other recorders."""
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
        raise DatasetRejected(
            f"start_episode: seed: got {seed!r:.40}, allowed whole numbers of 0 or more"
        )
    return number


def _checked_words(instruction: Any) -> str:
    try:
        instruction.encode()
    except (AttributeError, UnicodeError):
        raise DatasetRejected(f"instruction: got {instruction!r:.40}, allowed a text") from None
    return str(instruction)
