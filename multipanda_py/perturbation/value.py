# SPDX-License-Identifier: Apache-2.0
"""A number, or a range that it is drawn from."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError

FORMS = ("range", "normal", "log_range", "factor", "offset")
"""Uniform in [low, high]; mean and deviation; uniform in its logarithm; what the cell has times,
or plus, a number uniform in [low, high]."""
_ALLOWED = (
    "a number, a list of as many as the cell has there, or one of {range: [low, high]}, "
    "{normal: [mean, deviation]}, {log_range: [low, high]}, {factor: [low, high]} and "
    "{offset: [low, high]}"
)


def check_value(path: str, value: Any) -> list[str]:
    """Return a sentence if a value is neither a number nor a range."""
    if isinstance(value, list):
        return [
            fault for place, item in enumerate(value)
            for fault in check_value(f"{path}[{place}]", item)
        ] or ([] if value else [f"{path}: got an empty list, allowed {_ALLOWED}"])  # fmt: skip
    if _is_number(value):
        return []
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, bounds),) = value.items()
        if (
            form in FORMS
            and isinstance(bounds, list)
            and len(bounds) == 2
            and all(map(_is_number, bounds))
        ):
            if form == "normal" and bounds[1] < 0:
                return [f"{path}: got a deviation of {bounds[1]}, allowed 0 or more"]
            if form != "normal" and bounds[0] > bounds[1]:
                return [f"{path}: got {bounds}, allowed the lower bound first"]
            if form == "log_range" and bounds[0] <= 0:
                return [f"{path}: got {bounds}, allowed positive bounds of a logarithm"]
            return []
    return [f"{path}: got {value!r:.80}, allowed {_ALLOWED}"]


def draw_like(path: str, value: Any, usual: float | list[float], seed: int) -> Any:
    """Return numbers for a key of a cell.

    Every number has random numbers of its own, from the seed and its path: neither the order of
    keys nor what else is drawn changes it.

    Args:
        path: Of the key, such as ``arms.left.noise.tau``.
        value: As :func:`check_value` lets it pass.
        usual: What the cell has there: a number, or a list that says how many.
        seed: Of all.

    Raises:
        ConfigurationError: If a list has not as many items as the cell's.
    """
    if not isinstance(usual, list):
        if isinstance(value, list):
            raise ConfigurationError(f"{path}: got a list, allowed one number or range")
        return _draw(path, value, usual, seed)
    items = value if isinstance(value, list) else [value] * len(usual)
    if len(items) != len(usual):
        raise ConfigurationError(f"{path}: got {len(items)} items, allowed {len(usual)}")
    return [
        _draw(f"{path}[{place}]", item, own, seed)
        for place, (item, own) in enumerate(zip(items, usual))
    ]


def _draw(path: str, value: Any, usual: float, seed: int) -> float:
    if not isinstance(value, Mapping):
        return float(value)
    ((form, (low, high)),) = value.items()
    rng = np.random.default_rng((seed, zlib.crc32(path.encode())))
    if form == "normal":
        drawn = rng.normal(low, high)
    elif form == "log_range":
        drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        drawn = rng.uniform(low, high)
    if form == "factor":
        drawn *= usual
    elif form == "offset":
        drawn += usual
    return float(f"{drawn:.6g}")  # as a file shows it


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
