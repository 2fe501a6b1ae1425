# SPDX-License-Identifier: Apache-2.0
"""What a refinement has come to, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.identification.identify import Identified
from multipanda_py.refinement.gain import Gain
from multipanda_py.refinement.surface import FoundSurface
from multipanda_py.validation import Comparison
from multipanda_py.validation.quantities import QUANTITIES


@dataclass(frozen=True, eq=False)
class Round:
    """A twin, and how far it is from the plant.

    Attributes:
        number: 0 is the twin as it was given.
        found: What the tasks say.
        files: Of the bodies of its arms, by name.
        identified: What was found of them.
        surface: What was found of its table.
    """

    number: int
    found: Sequence[Comparison]
    files: Mapping[str, Path] = field(default_factory=dict)
    identified: Mapping[str, Identified] = field(default_factory=dict)
    surface: FoundSurface = field(default_factory=FoundSurface)

    @property
    def score(self) -> float:
        """Mean of the largest errors in units of their ceilings, over tasks and quantities.

        Infinite if a task could not be done, or the twin always stopped where the plant went on:
        without the errors of what is missing the mean would be smaller.
        """
        if not all(one.repeats and one.full for one in self.found):
            return float("inf")
        shares = [one.worst(q.name) / q.ceiling for one in self.found for q in QUANTITIES]
        return float(np.nanmean(shares))

    def as_dict(self) -> dict[str, Any]:
        """Return it in plain types."""
        return {
            "round": self.number,
            "score": self.score if np.isfinite(self.score) else None,
            "surface": dict(self.surface.values),
            "surface_range": {name: list(ends) for name, ends in self.surface.spread.items()},
            "held_out_rmse": {
                arm: {name: rmse.tolist() for name, rmse in one.held_out.items()}
                for arm, one in self.identified.items()
            },
            "tasks": [one.as_dict() for one in self.found],
        }


@dataclass(frozen=True, eq=False)
class Refinement:
    """All rounds.

    Attributes:
        rounds: From the twin as it was given on.
        gains: What laws that know the identified arms gain on the plant, by task; none where
            nothing but a simulation could say.
        ended: Why there are no more, in a clause.
        notes: What the plant could not do and was left out, in sentences.
    """

    rounds: Sequence[Round]
    gains: Sequence[Gain]
    ended: str
    notes: Sequence[str] = ()

    @property
    def best(self) -> Round:
        """The round with the least score."""
        return min(self.rounds, key=lambda one: one.score)
