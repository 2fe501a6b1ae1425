# SPDX-License-Identifier: Apache-2.0
"""Replacement for the parts of torchvision that datasets of LeRobot use, with PyAV.

No torchvision is compatible with the torch of ``make test-lerobot``. The replacement supports
only files of this package: videos at a constant rate, and no images in tables.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import av
import torch

__version__ = "0"
transforms = SimpleNamespace(ToTensor=None)


def set_video_backend(name: str) -> None:
    """Do nothing, as PyAV is the only decoder."""


class VideoReader:
    """Frames of a video from a time on."""

    def __init__(self, path: str, stream: str) -> None:
        self.container = av.open(path)
        self._frames: Iterator[Any] = iter(())

    def seek(self, time: float, keyframes_only: bool = False) -> "VideoReader":
        """Seek the last key frame before a time [s]."""
        self.container.seek(int(time * av.time_base), any_frame=False, backward=True)
        self._frames = self.container.decode(video=0)
        return self

    def __iter__(self) -> "VideoReader":
        return self

    def __next__(self) -> dict[str, Any]:
        frame = next(self._frames)
        pixels = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
        return {"data": pixels, "pts": frame.time}


io = SimpleNamespace(VideoReader=VideoReader)
