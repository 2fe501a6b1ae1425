# SPDX-License-Identifier: Apache-2.0
"""What a refinement has done so far, in files, so that one that was cut off goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from multipanda_py.exceptions import LogError, ValidationRefused
from multipanda_py.files import MAX_DESCRIPTION, MAX_RECORDING, open_regular, read_text, replacing
from multipanda_py.identification.arm.identify import Identified
from multipanda_py.identification.calibration.contact_parameters import FoundSurface
from multipanda_py.identification.calibration.improvement import Gain
from multipanda_py.identification.validation import Comparison, Run
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.identification.validation.record import load_run, save_run
from multipanda_py.state import Matrix


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


ASKED = "asked.json"
_T = TypeVar("_T")


class Kept:
    """Runs, motions and numbers by name, each a file that is there whole or not at all.

    A run that a fault ended is not kept: whoever mends its cause wants another one.

    Args:
        folder: Where they are; made with the first of them.
        asked: What they are the answer to, by name.

    Raises:
        ValidationRefused: If those that are there are the answer to something else.
    """

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        self._folder, self._asked = folder, json.loads(json.dumps(dict(asked)))
        try:
            there = json.loads(read_text(folder / ASKED, MAX_DESCRIPTION))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise ValidationRefused(f"{folder}: cannot be gone on with: {error}") from None
        if other := [name for name in self._asked if there.get(name) != self._asked[name]]:
            raise ValidationRefused(
                f"{folder}: what is there is of another {', another '.join(other)}: allowed the "
                "same, to go on with it, or --again, which begins anew"
            )

    def __len__(self) -> int:
        return len(list(self._folder.glob("*.npz")))

    def run(self, name: str, make: Callable[[], Run]) -> Run:
        """Return a run of a task."""
        path = self._folder / f"{name}.npz"
        with suppress(LogError):
            return load_run(path)
        made = make()
        if made.fault:
            return made
        self._begin()
        save_run(path, made)
        return load_run(path)  # as one that goes on sees it

    def points(self, name: str, make: Callable[[], Matrix]) -> Matrix:
        """Return a table of numbers."""
        path = self._folder / f"{name}.npy"

        def load() -> Matrix:
            with open_regular(path, MAX_RECORDING) as file:
                table: Matrix = np.load(file, allow_pickle=False)
            return table

        def save(table: Matrix) -> None:
            with replacing(path) as partial, partial.open("wb") as file:
                np.save(file, table)

        return self._kept(load, make, save)

    def numbers(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what JSON can have."""
        path = self._folder / f"{name}.json"

        def load() -> Mapping[str, Any]:
            values: Mapping[str, Any] = json.loads(read_text(path, MAX_DESCRIPTION))
            return values

        def save(values: Mapping[str, Any]) -> None:
            with replacing(path) as partial:
                partial.write_text(json.dumps(dict(values)), encoding="utf-8")

        return self._kept(load, make, save)

    def _kept(
        self, load: Callable[[], _T], make: Callable[[], _T], save: Callable[[_T], None]
    ) -> _T:
        with suppress(OSError, EOFError, ValueError):
            return load()
        made = make()
        self._begin()
        save(made)
        return load()

    def _begin(self) -> None:
        """Say in the folder what its files are the answer to."""
        self._folder.mkdir(exist_ok=True)
        if not (self._folder / ASKED).is_file():
            with replacing(self._folder / ASKED) as partial:
                partial.write_text(json.dumps(self._asked, indent=1), encoding="utf-8")
