# SPDX-License-Identifier: Apache-2.0
"""What a controllet follows, and what its parts add, written to the records of its arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.loop.row import TRACED_CHANNELS
from multipanda_py.state import Vector


class Trace:
    """Write references in every cycle, torque terms only when somebody has asked for them.

    Args:
        data: The target's records by channel, one per arm or one for all.
        tau: The torques of the controllet, per arm.
        records: The arms' records in the row, each of shape ().
        n_terms: The law and its features.

    Attributes:
        is_on: Whether torque terms are wanted.
        of_features: Where each feature notes what it adds, per arm (n_terms - 1, joints) [Nm].

    Thread: control.
    """

    def __init__(
        self,
        data: Mapping[str, Sequence[Vector]],
        tau: Sequence[Vector],
        records: Sequence[NDArray[np.void]],
        n_terms: int,
    ) -> None:
        self.is_on = False
        self._records = records
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
        terms = [np.zeros((n_terms, torque.size)) for torque in tau]
        self._of_law = [(own[0], torque) for own, torque in zip(terms, tau)]
        self.of_features = [own[1:] for own in terms]
        self._terms = [
            (record["terms"][:n_terms, : own.shape[1]], own) for record, own in zip(records, terms)
        ]

    def begin(self) -> None:
        """Take the records over from whoever had the arms."""
        for record in self._records:
            for name in TRACED_CHANNELS:
                record[f"target_{name}"][...] = 0.0
            record["terms"][...] = 0.0
            record["target_channels"][...] = self._channels
            record["terms_traced"][...] = len(self._terms[0][1]) if self.is_on else 0
        self.write()

    def law(self) -> None:
        """Note what the law has written, before any feature adds to it."""
        for own, torque in self._of_law:
            own[:] = torque

    def write(self) -> None:
        """Write this cycle's references, and terms if they are wanted."""
        for place, source in self._pairs:
            place[:] = source
        if self.is_on:
            for terms, own in self._terms:
                terms[:] = own
