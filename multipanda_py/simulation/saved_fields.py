# SPDX-License-Identifier: Apache-2.0
"""What changes in a part of the simulation while it runs: copied, and put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def save_fields(part: object, names: Sequence[str]) -> dict[str, object]:
    """Return copies of attributes of a part, by name."""
    return {name: _saved(getattr(part, name)) for name in names}


def load_fields(part: object, saved: Mapping[str, Any]) -> None:
    """Give a part the attributes that :func:`save_fields` has copied."""
    for name, value in saved.items():
        now = getattr(part, name)
        if isinstance(now, np.random.Generator):
            now.bit_generator.state = value
        else:
            setattr(part, name, _saved(value))


def _saved(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, (tuple, list, deque)):
        return type(value)(_saved(item) for item in value)
    return value  # numbers, words and frozen records
