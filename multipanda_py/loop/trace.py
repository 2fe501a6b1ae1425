# SPDX-License-Identifier: Apache-2.0
"""What a controllet follows, written to the records of its arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.loop.row import TRACED_CHANNELS
from multipanda_py.state import Vector


class Trace:
    """Write references in every cycle.

    Args:
        data: The target's records by channel, one per arm or one for all.
        records: The arms' records in the row, each of shape ().

    Thread: control.
    """

    def __init__(
        self,
        data: Mapping[str, Sequence[Vector]],
        records: Sequence[NDArray[np.void]],
    ) -> None:
        self._words = [record["target_channels"].reshape(1).data for record in records]
        places = [record[f"target_{name}"] for record in records for name in TRACED_CHANNELS]
        flat = [place.reshape(-1) for place in places]
        self._blank = [(place.data, np.zeros(place.size).data) for place in flat]
        self._pairs: list[tuple[memoryview, memoryview]] = []  # half the time of arrays
        self._channels = sum(1 << k for k, name in enumerate(TRACED_CHANNELS) if name in data)
        for name in TRACED_CHANNELS:
            for slot, record in enumerate(records if name in data else ()):
                source = data[name][min(slot, len(data[name]) - 1)]
                place = record[f"target_{name}"]
                size = source.size // place.shape[0] if name == "joint" else source.size
                sources = source.reshape(-1, size)
                for part, own in zip(place.reshape(-1, place.shape[-1]), sources):
                    self._pairs.append((part[:size].data, own.data))

    def begin(self) -> None:
        """Take the records over from whoever had the arms."""
        for place, zeros in self._blank:
            place[:] = zeros
        for word in self._words:
            word[0] = self._channels
        self.write()

    def write(self) -> None:
        """Write this cycle's references."""
        for place, source in self._pairs:
            place[:] = source
