# SPDX-License-Identifier: Apache-2.0
"""What was asked of a cell in vain, by number."""

from __future__ import annotations

from collections import Counter


class Counts:
    """Requests that came to nothing.

    Attributes:
        rejected: Refused requests, by what was refused: ``left target``, ``switch``.
        clipped: Targets of streams that were clipped to the gate: ``left pose``.
        withdrawn: Requests that were given up before the loop took them: ``switch``.
    """

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.clipped: Counter[str] = Counter()
        self.withdrawn: Counter[str] = Counter()
