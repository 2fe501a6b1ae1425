# SPDX-License-Identifier: Apache-2.0
"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("hot", "cpp", "paced", "wired", "scaling")
"""Laws alone, the same in C++, the node on simulated arms, the node on simulated FCI robots; one
to eight arms, and several cells."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        seconds: Of each condition, on simulated arms and on simulated robots.
        trials: Number of switches.
        rounds: Turns of what runs in a hot loop.
        parts: Which of :data:`PARTS`.
    """

    seconds: float = 30.0
    trials: int = 50
    rounds: int = 12
    parts: tuple[str, ...] = PARTS[:-1]


QUICK = Effort(seconds=0.6, trials=6, rounds=1, parts=("hot", "paced", "wired"))
"""Under a minute on a quiet machine."""
