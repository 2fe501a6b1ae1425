# SPDX-License-Identifier: Apache-2.0
"""Measure while arms do as their laws say: a cycle of an arm that holds costs something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from multipanda_py.bench.node import SETTLE, BenchNode
from multipanda_py.bench.rows import CycleTimes
from multipanda_py.exceptions import BenchError

ATTEMPTS = 3
"""Of a part; a machine that is too busy for it three times will be a fourth time."""
HELD = 0.01
"""Share of cycles in which an arm may have held: it moves no median and hardly a percentile."""
Found = TypeVar("Found")
Measure = Callable[[], tuple[Sequence[CycleTimes], Found]]


def undisturbed(
    nodes: Mapping[BenchNode, Sequence[str]], measure: Measure[Found]
) -> tuple[Sequence[CycleTimes], Found]:
    """Measure a part; anew if arms held or failed meanwhile, as when others took the machine.

    Args:
        nodes: What is measured, and the instances by which arms go on after that.
        measure: Returns the timing of each node, and whatever else.

    Returns:
        What it has returned.

    Raises:
        BenchError: If arms held or failed every time: there is no figure then.
    """
    share, last = 0.0, ""
    for _ in range(ATTEMPTS):
        timings, found = measure()
        share = max(float(timing.held.mean()) for timing in timings)
        if share <= HELD and not any(node.faults() for node in nodes):
            return timings, found
        last = " / ".join(_last_words(node.log) for node in nodes)
        for node, instances in nodes.items():
            node.switch(instances)
        time.sleep(SETTLE)
    for node in nodes:
        node.check()
    raise BenchError(
        f"arms held in {100.0 * share:.0f} % of the cycles, {ATTEMPTS} times: the machine is too "
        f"busy; the node's log ended with: {last}"
    )


def again(measure: Callable[[], Found]) -> Found:
    """Measure a part without a node; anew if it fails, as when others took the machine.

    Raises:
        BenchError: The last one, if it fails every time.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return measure()
        except BenchError:
            time.sleep(SETTLE)
    return measure()


def _last_words(log: str) -> str:
    """Return the last line of a log without its stamp and name."""
    return log.strip().rpartition("\n")[2].rpartition("]: ")[2]
