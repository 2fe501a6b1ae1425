# SPDX-License-Identifier: Apache-2.0
"""Run cycles on absolute deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable

from multipanda_py.loop.cycle import ControlLoop


def run_paced(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run the loop once per period until told to stop.

    A cycle that ends after the next deadline skips whole periods and keeps the phase; the
    skipped ones are counted in ``loop.missed``. Python's sleep is a ``clock_nanosleep`` to
    an absolute deadline from 3.11 on.

    Thread: control.
    """
    now, sleep = time.monotonic_ns, time.sleep
    step = round(period * 1e9)
    deadline = now() + step
    while keep_going():
        wait = deadline - now()
        if wait > 0:
            sleep(wait * 1e-9)
        loop.cycle(now(), deadline)
        deadline += step
        late = now() - deadline
        if late > 0:
            skipped = late // step + 1
            loop.missed += skipped
            deadline += skipped * step
