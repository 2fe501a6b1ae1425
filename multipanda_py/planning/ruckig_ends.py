# SPDX-License-Identifier: Apache-2.0
"""Drop ruckig's objects before the interpreter ends, or it prints those that are left.

A loop's process ends with a thread that waits, and holds on to all of its laws.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence

_alive: weakref.WeakKeyDictionary[object, Sequence[str]] = weakref.WeakKeyDictionary()


def let_go_at_exit(owner: object, names: Sequence[str]) -> None:
    """Note the attributes of an object that hold ruckig's; they are dropped at the end."""
    _alive[owner] = tuple(names)


@atexit.register
def _let_go() -> None:
    for owner, names in list(_alive.items()):
        for name in names:
            owner.__dict__.pop(name, None)
