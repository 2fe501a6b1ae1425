# SPDX-License-Identifier: Apache-2.0
"""Motions that are simulated in processes, into a folder that goes on where it was broken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from multipanda_py.exceptions import ConfigurationError, ValidationRefused
from multipanda_py.extras import needed
from multipanda_py.pairs.folder import Folder, Name, packed
from multipanda_py.pairs.recording import AlignedPair
from multipanda_py.pairs.workers import workers

Say = Callable[[str], None]
Task = tuple[Callable[..., tuple[Name, bytes]], tuple[Any, ...]]
"""What a process does: a function, and what it is given; it returns a motion's name and file."""
LEFT_OUT = "left out: "


def left_to_do(kept: Folder, say: Say) -> list[Name]:
    """Return the motions that a folder lacks, and say how many it has."""
    left = kept.left()
    if len(left) < len(kept):
        say(f"{len(kept) - len(left)} of {len(kept)} motions are there already")
    return left


def at_once(kept: Folder, tasks: Sequence[Task], how: tuple[str, str, int], say: Say) -> None:
    """Do what is left in processes, and keep each motion as it comes.

    Args:
        kept: Where they are kept.
        tasks: Of all motions that it lacks.
        how: Backend, cluster and jobs, see :func:`.workers`.
        say: Told of every motion.

    Raises:
        ConfigurationError: If there is no such backend.
        MissingExtra: If a library of it is missing.
    """
    joblib = needed("joblib")
    with workers(*how):
        done = joblib.Parallel(n_jobs=how[-1], return_as="generator_unordered")(
            joblib.delayed(function)(*given) for function, given in tasks
        )
        for number, (name, data) in enumerate(done, start=len(kept) - len(tasks) + 1):
            kept.put(name, data)
            say(f"{number} of {len(kept)} motions: {kept.said(name)}")


def file_of(name: Name, joints: int, make: Callable[[], AlignedPair]) -> bytes:
    """Return the file of a motion that is made now; one that cannot be done says why."""
    pair, said = None, f"{name[0]} {name[1]}"
    try:
        pair = make()
    except (ConfigurationError, ValidationRefused) as error:
        said = LEFT_OUT + " ".join(str(error).split())
    return packed(pair, joints, said)


def refuse_none(kept: Folder) -> None:
    """Refuse a folder all of whose motions were left out.

    Raises:
        ValidationRefused: With why the first was.
    """
    if not kept.kept():
        raise ValidationRefused(f"{kept.path}: no motion was recorded: {kept.first_said()}")
