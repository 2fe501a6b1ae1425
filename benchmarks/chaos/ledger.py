# SPDX-License-Identifier: Apache-2.0
"""Counts of injections, failures and response times of a campaign."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

FIELDS = ("thrown", "refused", "spoiled", "broke", "times")


class Ledger:
    """Counts by kind of injection; prints progress and failures.

    Args:
        total: Number of planned faults and inputs, or 0 to print nothing.

    Attributes:
        thrown: Number of injections, by kind.
        refused: Number of rejected ones, by kind.
        broke: Descriptions of failures, by kind.
        spoiled: Number of void cases, in which the machine delayed the loop, by kind.
        times: Response times, by name [s].
    """

    def __init__(self, total: int = 0) -> None:
        self.thrown: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.broke: defaultdict[str, list[str]] = defaultdict(list)
        self.spoiled: Counter[str] = Counter()
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.total = total
        self._next = 0.0
        self._started = time.monotonic()

    def count(self, kind: str, number: int = 1, refused: int = 0) -> None:
        """Count injections of a kind, and how many of them were rejected."""
        self.thrown[kind] += number
        self.refused[kind] += refused
        if self.total and time.monotonic() > self._next:
            self._next = time.monotonic() + 10.0
            minutes = (time.monotonic() - self._started) / 60.0
            failures = sum(map(len, self.broke.values()))
            done = sum(n for name, n in self.thrown.items() if "flood" not in name)
            print(f"{minutes:5.1f} min  {done} of {self.total}  {kind}; "
                  f"failures: {failures}", flush=True)  # fmt: skip

    def fail(self, kind: str, text: str) -> None:
        """Record a failure."""
        self.broke[kind].append(text)
        if self.total:
            print(f"FAILED  {kind}: {text}", flush=True)

    def expect(self, condition: bool, kind: str, text: str) -> bool:
        """Record a failure if a condition is false; return the condition."""
        if not condition:
            self.fail(kind, text)
        return condition

    def void(self, kind: str, since: int) -> None:
        """Count a void case; discard the failures of a kind after the first ``since``."""
        del self.broke[kind][since:]
        self.spoiled[kind] += 1

    def to_json(self) -> dict[str, Any]:
        """Return all counts in JSON types."""
        return {name: dict(getattr(self, name)) for name in FIELDS}

    def add(self, other: dict[str, Any]) -> None:
        """Add the counts of another ledger, in the format of :meth:`to_json`."""
        for name in ("thrown", "refused", "spoiled"):
            getattr(self, name).update(other[name])
        for name in ("broke", "times"):
            for key, items in other[name].items():
                getattr(self, name)[key] += items

    @property
    def failures(self) -> list[str]:
        """All failures, with their kinds."""
        return [f"{kind}: {text}" for kind, texts in self.broke.items() for text in texts]

    def rows(self) -> list[str]:
        """Return the table of injections in Markdown."""
        lines = ["| injected | number | rejected | void | failed |", "|---|---|---|---|---|"]
        for kind, count in sorted(self.thrown.items()):
            refused = str(self.refused[kind]) if self.refused[kind] else ""
            spoiled = str(self.spoiled[kind] or "")
            lines.append(f"| {kind} | {count} | {refused} | {spoiled} | {len(self.broke[kind])} |")
        return lines
