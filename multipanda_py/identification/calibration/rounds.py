# SPDX-License-Identifier: Apache-2.0
"""Plan and results of a calibration, and the file cache from which it resumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from multipanda_py.exceptions import LogError, ValidationRejected
from multipanda_py.files import (
    MAX_DESCRIPTION_SIZE,
    MAX_RECORDING_SIZE,
    open_regular,
    read_text,
    replacing,
)
from multipanda_py.identification.arm.identify import Identified
from multipanda_py.identification.calibration.contact_parameters import ContactParameters
from multipanda_py.identification.calibration.improvement import ModelImprovement
from multipanda_py.identification.validation import Comparison, Run
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.identification.validation.record import load_run, save_run
from multipanda_py.state import Matrix


@dataclass(frozen=True)
class CalibrationPlan:
    """Tasks, repeats and rounds of a calibration.

    Attributes:
        tasks: Numbers of the validation tasks.
        laws: Names of the controllets to use in tasks with contact forces. If empty, each of these
            tasks uses its default controllet.
        seconds: Duration of each task [s].
        repeats: Number of runs of each task, on the plant and on the twin.
        rounds: Maximum number of rounds.
        evaluations: Number of motions evaluated in the search for an excitation motion.
        seed: Random seed of noise and motions.
        recover: True to recover real arms that stopped on a fault during a task.
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
    """Parameters and errors of the twin in one round of a calibration.

    Attributes:
        number: Number of the round. Round 0 is the twin before the calibration.
        comparisons: Comparison of twin and plant for each task.
        files: Parameter files by arm.
        identified: Identification results by arm.
        surface: Estimated parameters of the table.
    """

    number: int
    comparisons: Sequence[Comparison]
    files: Mapping[str, Path] = field(default_factory=dict)
    identified: Mapping[str, Identified] = field(default_factory=dict)
    surface: ContactParameters = field(default_factory=ContactParameters)

    @property
    def score(self) -> float:
        """Mean ratio of the twin's errors to those in the multipanda_ros2 paper.

        For each task and quantity, the largest error is divided by :attr:`.Quantity.ceiling`. The
        score is infinite if a task has no comparable runs, or every run of the twin ends before
        that of the plant.
        """
        if not all(one.repeats and one.full for one in self.comparisons):
            return float("inf")
        fractions = [one.worst(q.name) / q.ceiling for one in self.comparisons for q in QUANTITIES]
        return float(np.nanmean(fractions))

    def as_dict(self) -> dict[str, Any]:
        """Return the round as plain types, for the JSON file."""
        return {
            "round": self.number,
            "score": self.score if np.isfinite(self.score) else None,
            "surface": dict(self.surface.values),
            "surface_range": {name: list(ends) for name, ends in self.surface.spread.items()},
            "held_out_rmse": {
                arm: {name: rmse.tolist() for name, rmse in one.held_out.items()}
                for arm, one in self.identified.items()
            },
            "tasks": [one.as_dict() for one in self.comparisons],
        }


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of a calibration.

    Attributes:
        rounds: All rounds, starting with that of the uncalibrated twin.
        gains: Improvement of controllets on the plant with the identified model, one per task.
            Tasks with contact forces are omitted on real arms.
        ended: Reason why the calibration ended, as a clause.
        notes: Messages about skipped tasks, motions and parameters.
    """

    rounds: Sequence[Round]
    gains: Sequence[ModelImprovement]
    ended: str
    notes: Sequence[str] = ()

    @property
    def best(self) -> Round:
        """Round in which the twin has the lowest score, that is the smallest errors."""
        return min(self.rounds, key=lambda one: one.score)


REQUEST_FILE = "asked.json"
_T = TypeVar("_T")


class RunCache:
    """Cache of runs, motions and numbers as files, which are written atomically.

    Runs that ended on a fault are not stored.

    Args:
        folder: Folder of the files. It is created when the first file is written.
        arguments: Arguments on which the stored results depend, by name.

    Raises:
        ValidationRejected: If the folder contains results of other arguments.
    """

    def __init__(self, folder: Path, arguments: Mapping[str, Any]) -> None:
        self._folder, self._request = folder, json.loads(json.dumps(dict(arguments)))
        try:
            there = json.loads(read_text(folder / REQUEST_FILE, MAX_DESCRIPTION_SIZE))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise ValidationRejected(f"{folder}: cannot be resumed: {error}") from None
        if other := [name for name in self._request if there.get(name) != self._request[name]]:
            raise ValidationRejected(
                f"{folder}: contains results with another {', another '.join(other)}. Use the "
                "same values to resume, or --restart to start over."
            )

    def __len__(self) -> int:
        return len(list(self._folder.glob("*.npz")))

    def run(self, name: str, make: Callable[[], Run]) -> Run:
        """Return the run stored under a name, or else make and store it."""
        path = self._folder / f"{name}.npz"
        with suppress(LogError):
            return load_run(path)
        made = make()
        if made.fault:
            return made
        self._start()
        save_run(path, made)
        # A resumed calibration reads this file. Reading it here as well gives equal values.
        return load_run(path)

    def points(self, name: str, make: Callable[[], Matrix]) -> Matrix:
        """Return the matrix stored under a name, or else make and store it."""
        path = self._folder / f"{name}.npy"

        def load() -> Matrix:
            with open_regular(path, MAX_RECORDING_SIZE) as file:
                table: Matrix = np.load(file, allow_pickle=False)
            return table

        def save(table: Matrix) -> None:
            with replacing(path) as partial, partial.open("wb") as file:
                np.save(file, table)

        return self._load_or_make(load, make, save)

    def numbers(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the JSON mapping stored under a name, or else make and store it."""
        path = self._folder / f"{name}.json"

        def load() -> Mapping[str, Any]:
            values: Mapping[str, Any] = json.loads(read_text(path, MAX_DESCRIPTION_SIZE))
            return values

        def save(values: Mapping[str, Any]) -> None:
            with replacing(path) as partial:
                partial.write_text(json.dumps(dict(values)), encoding="utf-8")

        return self._load_or_make(load, make, save)

    def _load_or_make(
        self, load: Callable[[], _T], make: Callable[[], _T], save: Callable[[_T], None]
    ) -> _T:
        with suppress(OSError, EOFError, ValueError):
            return load()
        made = make()
        self._start()
        save(made)
        return load()

    def _start(self) -> None:
        self._folder.mkdir(exist_ok=True)
        if not (self._folder / REQUEST_FILE).is_file():
            with replacing(self._folder / REQUEST_FILE) as partial:
                partial.write_text(json.dumps(self._request, indent=1), encoding="utf-8")
