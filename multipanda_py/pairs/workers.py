# SPDX-License-Identifier: Apache-2.0
"""Processes that simulate motions: on this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import needed

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
