# SPDX-License-Identifier: Apache-2.0
"""How much a refinement does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RefinementPlan:
    """How much is done.

    Attributes:
        tasks: By number.
        laws: Names of force laws; the first that a task has if empty.
        seconds: Of each task.
        repeats: Of each task and side.
        rounds: Most of them.
        evaluations: Motions that are tried before one is shown to an arm.
        seed: Of noise and motions.
        recover: Whether real arms that have stopped by themselves in a task are recovered.
    """

    tasks: Sequence[int] = (1, 2, 3, 4)
    laws: Sequence[str] = ()
    seconds: float = 4.0
    repeats: int = 1
    rounds: int = 3
    evaluations: int = 600
    seed: int = 0
    recover: bool = False
