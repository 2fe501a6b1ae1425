# SPDX-License-Identifier: Apache-2.0
"""One chunk after another, without a jump from one to the next."""

from __future__ import annotations

import numpy as np

from multipanda_py.policies.action_chunk import ActionChunk
from multipanda_py.state import Vector


class ChunkPlayer:
    r"""Play the newest chunk, and let what it differs from the one before fade out.

    .. math:: a(t) = c(t) + \max(0, 1 - (t - t_0) / T_b) \, (a(t_0^-) - c(t_0))

    with the chunk c that came at t0, and what was played until then: of an older chunk, itself
    perhaps still blended, or the hold.

    Args:
        blend: Time for it [s]; 0 for none.
    """

    def __init__(self, blend: float) -> None:
        self.blend = blend
        self.chunk: ActionChunk | None = None
        self._since = 0.0
        self._difference: Vector = np.zeros(0)

    def clear(self) -> None:
        """Forget all chunks."""
        self.chunk = None

    def take(self, chunk: ActionChunk, now: float, hold: Vector) -> None:
        """Go over to a chunk.

        Args:
            chunk: The newest.
            now: The instant [s].
            hold: What is played if there is nothing of the last one, (k,).
        """
        playing = self.at(now)
        self._difference = (hold if playing is None else playing) - chunk.at(now)
        self.chunk, self._since = chunk, now

    def at(self, now: float) -> Vector | None:
        """Return the action of an instant, (k,), or None if chunks have run out."""
        if self.chunk is None or self.chunk.is_over(now):
            return None
        action = self.chunk.at(now)
        passed = now - self._since
        if passed >= self.blend:
            return action
        return action + (1.0 - passed / self.blend) * self._difference
