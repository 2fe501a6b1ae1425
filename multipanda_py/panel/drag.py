# SPDX-License-Identifier: Apache-2.0
"""A hand on a gizmo: from grasp to release, or until nothing is heard of it any more."""

from __future__ import annotations

import math

TARGET_TIMEOUT = 0.5
"""Silence of a page in the middle of a drag from which on its arm holds [s]."""


class Drag:
    """What one viewer does with the target of one arm.

    A page that is closed, stalls or loses its network in the middle of a drag says nothing any
    more; nor does one whose user keeps the mouse still. Either way :meth:`falls_silent` says so
    once, and the arm is to hold where it is; it goes on with the next word.

    Attributes:
        viewer: Who drags, or None.

    Thread: one.
    """

    def __init__(self) -> None:
        self.viewer: int | None = None
        self._heard = math.inf

    def goes_on(self, viewer: int, now: float) -> None:
        """Take note of a word of the page at a time [s]."""
        self.viewer, self._heard = viewer, now

    def end(self) -> None:
        """Take note that the gizmo was let go of."""
        self.viewer, self._heard = None, math.inf

    def falls_silent(self, now: float) -> bool:
        """Return whether a drag has been silent for too long; says so once."""
        if now - self._heard <= TARGET_TIMEOUT:
            return False
        self._heard = math.inf
        return True
