# SPDX-License-Identifier: Apache-2.0
"""Least, most, mean, deviation and quantiles of every number, as learning normalises by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.view.rendering import Image

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
Stats = dict[str, NDArray[Any]]


def stats_of(rows: NDArray[Any]) -> Stats:
    """Return them of a column, (n,) or (n, k), over its rows; each is (k,), ``count`` is (1,)."""
    table = np.asarray(rows, np.float64).reshape(len(rows), -1)
    found = {
        "min": table.min(axis=0),
        "max": table.max(axis=0),
        "mean": table.mean(axis=0),
        "std": table.std(axis=0),
        "count": np.array([len(table)]),
    }
    return found | {name: np.quantile(table, q, axis=0) for name, q in QUANTILES.items()}


class PictureStats:
    """Gather them of red, green and blue, 0 to 1, from some pictures and some of their pixels.

    Args:
        every: Which pictures count: the first one and every so manieth.
    """

    def __init__(self, every: int) -> None:
        self._every, self._seen = every, 0
        self._pixels: list[NDArray[np.uint8]] = []

    def add(self, image: Image) -> None:
        """Take a picture into account, (height, width, 3)."""
        if self._seen % self._every == 0:
            step = max(1, min(image.shape[:2]) // 32)
            self._pixels.append(image[::step, ::step].reshape(-1, 3))
        self._seen += 1

    def result(self) -> Stats:
        """Return them, (3, 1, 1); ``count`` is that of pictures, (1,)."""
        found = stats_of(np.concatenate(self._pixels) / 255.0)
        shaped = {key: value.reshape(-1, 1, 1) for key, value in found.items() if key != "count"}
        return shaped | {"count": np.array([len(self._pixels)])}


def together(parts: Sequence[Mapping[str, Any]]) -> Stats:
    r"""Return statistics of episodes as those of all of them.

    .. math:: \mu = \sum_i w_i \mu_i, \quad
        \sigma^2 = \sum_i w_i (\sigma_i^2 + (\mu_i - \mu)^2), \quad w_i = n_i / \sum_j n_j

    Quantiles are means of those of the episodes, weighted alike: not exact.
    """
    of = {key: np.array([np.asarray(part[key], float) for part in parts]) for key in parts[0]}
    counts = of["count"].reshape(-1)
    share = (counts / counts.sum()).reshape(-1, *[1] * (of["mean"].ndim - 1))
    mean = (share * of["mean"]).sum(axis=0)
    spread = (share * (of["std"] ** 2 + (of["mean"] - mean) ** 2)).sum(axis=0)
    found = {
        "min": of["min"].min(axis=0),
        "max": of["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(spread),
        "count": np.array([int(counts.sum())]),
    }
    return found | {name: (share * of[name]).sum(axis=0) for name in QUANTILES}
