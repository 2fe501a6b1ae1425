# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def two(figures: Mapping[str, float] | None, digits: int = 0) -> str:
    """Return median and 99th percentile, the first two of some figures; nothing of nothing."""
    if not figures:
        return ""
    first, second = list(figures.values())[:2]
    return f"{first:.{digits}f} / {second:.{digits}f}"


def missed(figures: Mapping[str, int]) -> str:
    """Return how many periods passed without a cycle, of all periods."""
    return f"{figures['missed']} of {figures['missed'] + figures['cycles']}"


def not_measured(figures: Mapping[str, str]) -> str:
    """Return why there is no figure, in a line; empty if there is."""
    lines = figures.get("trouble", "").splitlines()
    return f"not measured: {lines[0]}" if lines else ""
