# SPDX-License-Identifier: Apache-2.0
"""What a refinement has done so far, in files, so that one that was cut off goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from multipanda_py.exceptions import LogError, ValidationRefused
from multipanda_py.files.regular_file import (
    MAX_DESCRIPTION,
    MAX_RECORDING,
    open_regular,
    read_text,
)
from multipanda_py.machine.whole_file import replacing
from multipanda_py.state import Matrix
from multipanda_py.validation import Run
from multipanda_py.validation.run_file import load_run, save_run

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
