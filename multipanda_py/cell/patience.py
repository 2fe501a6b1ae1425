# SPDX-License-Identifier: Apache-2.0
"""How long a caller is ready to wait."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.exceptions import MultipandaError


def seconds(timeout: object, refusal: type[MultipandaError]) -> float:
    """Return a timeout [s] that may be waited for; infinity is for ever.

    Args:
        timeout: What the caller gave.
        refusal: The error that says so if it is no such number.

    Raises:
        refusal: If it is not a number, or not 0 or more.

    Thread: any.
    """
    if isinstance(timeout, (int, float, np.integer, np.floating)) and not (
        isinstance(timeout, bool) or math.isnan(timeout) or timeout < 0
    ):
        return float(timeout)
    raise refusal(f"timeout: got {timeout!r:.60}, allowed a number of seconds, 0 or more")
