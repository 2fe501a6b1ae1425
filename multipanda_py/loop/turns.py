# SPDX-License-Identifier: Apache-2.0
"""Joints that turn without end: their positions go on where a robot begins its circle anew."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.state import ArmState


class Turns:
    r"""Keep the positions of an arm's endless joints from jumping.

    .. math:: q \leftarrow q + 2 \pi\, \mathrm{round}((q_{k-1} - q) / 2 \pi)

    so that errors of targets, springs and trajectories are differences, whether a robot counts its
    turns or reports angles of one circle. A position that is none stays as it is.

    Args:
        state: Of an arm with such joints, whose positions a backend writes.

    Thread: control.
    """

    def __init__(self, state: ArmState) -> None:
        self._q = state.q
        self._joints = np.flatnonzero(state.limits.endless)
        self._places: list[int] = self._joints.tolist()
        self._last = [math.nan] * len(self._places)  # the first position counts as it is

    def begin(self) -> None:
        """Count from where the joints are said to be now."""
        self._last = self._q[self._joints].tolist()

    def count(self) -> None:
        """Add the turns that the joints have made since the last call."""
        for place, (joint, last) in enumerate(zip(self._places, self._last)):
            q = float(self._q[joint])
            if abs(q - last) > math.pi and math.isfinite(q):
                q += math.tau * round((last - q) / math.tau)
                self._q[joint] = q
            if math.isfinite(q):
                self._last[place] = q
