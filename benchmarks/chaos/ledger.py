# SPDX-License-Identifier: Apache-2.0
"""What was thrown, how often, and what broke."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

BOOKS = ("thrown", "refused", "spoiled", "broke", "times")


class Ledger:
    """Count by kind; say how it goes.

    Attributes:
        thrown: How often, by kind.
        broke: What broke, by kind.
        spoiled: What the machine made worthless by standing still, by kind.
        times: What took how long, by name [s].
    """

    def __init__(self, total: int = 0) -> None:
        self.thrown: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.broke: defaultdict[str, list[str]] = defaultdict(list)
        self.spoiled: Counter[str] = Counter()
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.total = total
        self._next = 0.0
        self._begun = time.monotonic()

    def throw(self, kind: str, count: int = 1, refused: int = 0) -> None:
        """Note that something was thrown, and how much of it was refused."""
        self.thrown[kind] += count
        self.refused[kind] += refused
        if self.total and time.monotonic() > self._next:
            self._next = time.monotonic() + 10.0
            minutes = (time.monotonic() - self._begun) / 60.0
            broken = sum(map(len, self.broke.values()))
            count = sum(n for what, n in self.thrown.items() if "flood" not in what)
            print(f"{minutes:5.1f} min  {count} of {self.total}  {kind}; "
                  f"{broken} broke", flush=True)  # fmt: skip

    def fail(self, kind: str, text: str) -> None:
        """Note what broke."""
        self.broke[kind].append(text)
        if self.total:
            print(f"BROKE  {kind}: {text}", flush=True)

    def expect(self, condition: bool, kind: str, text: str) -> bool:
        """Note what broke if a condition does not hold."""
        if not condition:
            self.fail(kind, text)
        return condition

    def spoil(self, kind: str, since: int) -> None:
        """Forget what broke of a kind after ``since`` breaks: the machine stood still."""
        del self.broke[kind][since:]
        self.spoiled[kind] += 1

    def to_json(self) -> dict[str, Any]:
        """Return all of it in types of JSON."""
        return {name: dict(getattr(self, name)) for name in BOOKS}

    def add(self, other: dict[str, Any]) -> None:
        """Add what another ledger has noted, as its :meth:`to_json` tells."""
        for name in ("thrown", "refused", "spoiled"):
            getattr(self, name).update(other[name])
        for name in ("broke", "times"):
            for key, found in other[name].items():
                getattr(self, name)[key] += found

    @property
    def failures(self) -> list[str]:
        """Everything that broke."""
        return [f"{kind}: {text}" for kind, texts in self.broke.items() for text in texts]

    def rows(self) -> list[str]:
        """Return the lines of the table in Markdown."""
        lines = ["| injected | number | rejected | void | failed |", "|---|---|---|---|---|"]
        for kind, count in sorted(self.thrown.items()):
            refused = str(self.refused[kind]) if self.refused[kind] else ""
            spoiled = str(self.spoiled[kind] or "")
            lines.append(f"| {kind} | {count} | {refused} | {spoiled} | {len(self.broke[kind])} |")
        return lines
