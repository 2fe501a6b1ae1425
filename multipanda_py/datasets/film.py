# SPDX-License-Identifier: Apache-2.0
"""A film written beside what goes on: pictures wait in a queue for the encoder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from queue import Queue
from threading import Thread

import numpy as np

from multipanda_py.exceptions import DatasetRefused
from multipanda_py.extras import needed
from multipanda_py.machine.closing import Closing
from multipanda_py.view.rendering import Image

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
