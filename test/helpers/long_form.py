# SPDX-License-Identifier: Apache-2.0
"""Choice between the short form of the suite and the long one, ``make test-all``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")

LONG = bool(os.environ.get("MULTIPANDA_LONG"))
"""Whether the long form runs."""


def long_form(items: Iterable[Item], keep: Iterable[Item]) -> list[Item]:
    """Return all items in the long form, and those to keep in the short one."""
    return list(items if LONG else keep)


def every_nth(n: int, items: Iterable[Item]) -> list[Item]:
    """Return all items in the long form, and every n-th, from the first, in the short one."""
    every = list(items)
    return long_form(every, keep=every[::n])
