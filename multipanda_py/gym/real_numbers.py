# SPDX-License-Identifier: Apache-2.0
"""Numbers that others have written: actions, and answers of policies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_REAL = "biuf"
"""Kinds of numpy's numbers that are real; integers beyond 64 bits are objects."""


def real_numbers(given: Any) -> NDArray[np.float64]:
    """Return an array of what is given, a copy.

    Raises:
        TypeError: With what it is instead of real numbers, or without words if it is no array.
    """
    try:
        numbers = np.asarray(given)
    except Exception as error:  # whoever wrote it: it may be anything
        raise TypeError from error
    if np.ma.isMaskedArray(given):
        raise TypeError("masked")
    if numbers.dtype.kind not in _REAL:
        raise TypeError(str(numbers.dtype))
    return numbers.astype(np.float64)
