# SPDX-License-Identifier: Apache-2.0
"""Selection of the short test suite, or of the long one by ``make test-all``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")

LONG = bool(os.environ.get("MULTIPANDA_LONG"))
"""True if the long suite runs."""


def long_form(items: Iterable[Item], keep: Iterable[Item]) -> list[Item]:
    """Return all items in the long suite, and the items to keep in the short one."""
    return list(items if LONG else keep)


def every_nth(n: int, items: Iterable[Item]) -> list[Item]:
    """Return all items in the long suite, and every n-th from the first in the short one."""
    every = list(items)
    return long_form(every, keep=every[::n])
