# SPDX-License-Identifier: Apache-2.0
"""What LeRobot's datasets use of torchvision, by PyAV alone, where no torchvision fits the torch.

Only in the environment of ``make test-lerobot``, and only for files of this package: films at a
constant rate, no images in tables.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import av
import torch

__version__ = "0"
transforms = SimpleNamespace(ToTensor=None)


def set_video_backend(name: str) -> None:
    """Take the only decoder there is."""


class VideoReader:
    """Pictures of a film from an instant on."""

    def __init__(self, path: str, stream: str) -> None:
        self.container = av.open(path)
        self._pictures: Iterator[Any] = iter(())

    def seek(self, time: float, keyframes_only: bool = False) -> "VideoReader":
        """Go to the last picture before an instant [s] that stands for itself."""
        self.container.seek(int(time * av.time_base), any_frame=False, backward=True)
        self._pictures = self.container.decode(video=0)
        return self

    def __iter__(self) -> "VideoReader":
        return self

    def __next__(self) -> dict[str, Any]:
        picture = next(self._pictures)
        pixels = torch.from_numpy(picture.to_ndarray(format="rgb24")).permute(2, 0, 1)
        return {"data": pixels, "pts": picture.time}


io = SimpleNamespace(VideoReader=VideoReader)
