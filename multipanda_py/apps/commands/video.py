# SPDX-License-Identifier: Apache-2.0
"""Write videos and small animated images."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from multipanda_py.exceptions import RenderingUnavailable
from multipanda_py.registry import missing
from multipanda_py.simulation.rendering import Image, VideoWriter

COLORS = 160
"""Colours of a GIF; its file size grows with them."""
WEBP_QUALITY = 70
"""Quality of WebP images from 0 to 100."""


class AnimationWriter:
    """Writer that collects images and writes them as one GIF or WebP; a context manager.

    All images of a GIF use the palette of the first one, without dithering. Parts that do not
    move are then identical in all images and need no space.

    Args:
        path: File name with suffix ``.gif`` or ``.webp``.
        fps: Images per second; a GIF rounds the time of an image to 10 ms.

    Raises:
        RenderingUnavailable: Pillow is not installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        try:
            self._pillow: Any = import_module("PIL.Image")
        except ImportError as error:
            raise RenderingUnavailable(f"cannot write {path}: {missing('PIL')}") from error
        self._path, self._duration = path, round(1000.0 / fps)
        self._is_gif = path.suffix.lower() == ".gif"
        self._images: list[Any] = []
        self._palette: Any = None

    def append(self, image: Image) -> None:
        """Add an image, (height, width, 3)."""
        frame = self._pillow.fromarray(image)
        if self._is_gif:
            if self._palette is None:
                self._palette = frame.quantize(COLORS)
            frame = frame.quantize(palette=self._palette, dither=self._pillow.Dither.NONE)
        self._images.append(frame)

    def __enter__(self) -> AnimationWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the file, unless the block raised an exception."""
        if kind is None and self._images:
            first, *others = self._images
            extra = {} if self._is_gif else {"quality": WEBP_QUALITY, "method": 4}
            first.save(self._path, save_all=True, append_images=others, loop=0,
                       duration=self._duration, **extra)  # fmt: skip


def open_video(path: Path, fps: float) -> VideoWriter | AnimationWriter:
    """Return the video writer for the suffix of ``path``."""
    return VideoWriter(path, fps) if path.suffix.lower() == ".mp4" else AnimationWriter(path, fps)
