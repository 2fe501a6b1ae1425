# SPDX-License-Identifier: Apache-2.0
"""Motions that are simulated in processes, into a folder that goes on where it was broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from multipanda_py.exceptions import ConfigurationError, ValidationRefused
from multipanda_py.identification.paired.folder import Folder, Name, packed
from multipanda_py.identification.paired.recording import AlignedPair
from multipanda_py.registry import needed

PARALLEL = ("loky", "dask")
"""Of joblib's backends, those that a command names; from Python there is whatever joblib has."""
_PATIENCE = 10.0


@contextmanager
def workers(parallel: str = "", cluster: str = "", jobs: int = -1) -> Iterator[None]:
    """Have joblib use a backend within.

    Args:
        parallel: One of :data:`PARALLEL`; empty leaves what ``joblib.parallel_config`` says, which
            is how a Ray cluster is used, too.
        cluster: Address of a Dask scheduler; without one a cluster of this machine is made.
        jobs: Workers of that, -1 for one per core.

    Raises:
        ConfigurationError: If there is no such backend, or the scheduler does not answer.
        MissingExtra: If a library of it is missing.
    """
    joblib = needed("joblib")
    if parallel not in ("", *PARALLEL):
        raise ConfigurationError(f"--parallel: got {parallel!r}, allowed {', '.join(PARALLEL)}")
    if cluster and parallel != "dask":
        raise ConfigurationError(f"--cluster: got {cluster!r}, allowed with --parallel dask only")
    if not parallel:
        yield
        return
    if parallel == "loky":
        with joblib.parallel_config("loky"):
            yield
        return
    distributed = needed("distributed")
    own = {"n_workers": joblib.effective_n_jobs(jobs), "threads_per_worker": 1}
    try:
        client = (
            distributed.Client(cluster, timeout=_PATIENCE)
            if cluster
            else distributed.Client(**own, dashboard_address=None)
        )
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ConfigurationError(f"--cluster: {cluster}: does not answer: {words}") from None
    with client, joblib.parallel_config("dask"):
        yield


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
