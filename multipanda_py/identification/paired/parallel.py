# SPDX-License-Identifier: Apache-2.0
"""Parallel simulation of motions into a resumable folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from multipanda_py.exceptions import ConfigurationError, ValidationRefused
from multipanda_py.identification.paired.folder import Folder, Name, packed
from multipanda_py.identification.paired.recording import AlignedPair
from multipanda_py.registry import needed

PARALLEL_BACKENDS = ("loky", "dask")
"""Backends of joblib available on the command line. Python callers can use any
backend of joblib."""
_TIMEOUT = 10.0  # Timeout of the connection to the cluster [s].


@contextmanager
def workers(parallel: str = "", cluster: str = "", jobs: int = -1) -> Iterator[None]:
    """Select the backend of joblib within a context.

    Args:
        parallel: Backend, one of :data:`PARALLEL_BACKENDS`. If empty, the setting of
            ``joblib.parallel_config`` applies, for example a Ray cluster.
        cluster: Address of a Dask scheduler. Without one, a local cluster is created.
        jobs: Number of workers of the local cluster, -1 for one per core.

    Raises:
        ConfigurationError: If the backend does not exist or the scheduler does not answer.
        MissingExtra: If a library of the backend is missing.
    """
    joblib = needed("joblib")
    if parallel not in ("", *PARALLEL_BACKENDS):
        raise ConfigurationError(
            f"--parallel: got {parallel!r}, allowed {', '.join(PARALLEL_BACKENDS)}"
        )
    if cluster and parallel != "dask":
        raise ConfigurationError(f"--cluster: got {cluster!r}, which needs --parallel dask")
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
            distributed.Client(cluster, timeout=_TIMEOUT)
            if cluster
            else distributed.Client(**own, dashboard_address=None)
        )
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ConfigurationError(f"--cluster: {cluster}: does not answer: {words}") from None
    with client, joblib.parallel_config("dask"):
        yield


LogFunction = Callable[[str], None]
Task = tuple[Callable[..., tuple[Name, bytes]], tuple[Any, ...]]
"""Function with its arguments for a worker process. It returns name and file
contents of a motion."""
LEFT_OUT = "left out: "


def left_to_do(folder: Folder, log: LogFunction) -> list[Name]:
    """Return the motions that a folder lacks, and report the number of finished ones.

    Args:
        folder: Folder of the motions.
        log: Callback that receives the report.
    """
    left = folder.left()
    if len(left) < len(folder):
        log(f"{len(folder) - len(left)} of {len(folder)} motions are already done")
    return left


def run_parallel(
    folder: Folder, tasks: Sequence[Task], how: tuple[str, str, int], log: LogFunction
) -> None:
    """Process motions in parallel and store each as soon as it is done.

    Args:
        folder: Folder of the motions.
        tasks: Tasks of all missing motions.
        how: Backend, cluster and jobs, see :func:`.workers`.
        log: Callback that receives a message per motion.

    Raises:
        ConfigurationError: If the backend does not exist.
        MissingExtra: If a library of the backend is missing.
    """
    joblib = needed("joblib")
    with workers(*how):
        done = joblib.Parallel(n_jobs=how[-1], return_as="generator_unordered")(
            joblib.delayed(function)(*arguments) for function, arguments in tasks
        )
        for number, (name, data) in enumerate(done, start=len(folder) - len(tasks) + 1):
            folder.put(name, data)
            log(f"{number} of {len(folder)} motions: {folder.note(name)}")


def file_of(name: Name, joints: int, make: Callable[[], AlignedPair]) -> bytes:
    """Return the file contents of a motion. A failed motion contains the reason.

    Args:
        name: Name of the motion.
        joints: Number of joints.
        make: Function that records the motion.
    """
    pair, note = None, f"{name[0]} {name[1]}"
    try:
        pair = make()
    except (ConfigurationError, ValidationRefused) as error:
        note = LEFT_OUT + " ".join(str(error).split())
    return packed(pair, joints, note)


def check_any_recorded(folder: Folder) -> None:
    """Refuse a folder in which all motions were skipped.

    Raises:
        ValidationRefused: If all were skipped. The message contains the first reason.
    """
    if not folder.motions():
        raise ValidationRefused(f"{folder.path}: no motion was recorded: {folder.first_note()}")
