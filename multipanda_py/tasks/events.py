# SPDX-License-Identifier: Apache-2.0
"""What happens in a task, as it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

What: TypeAlias = Literal[
    "started", "planned", "replanned", "touching", "moving", "done", "retry", "fallback",
    "failed", "paused", "resumed", "aborted",
]  # fmt: skip


@dataclass(frozen=True)
class TaskEvent:
    """One thing that happened.

    Attributes:
        time: Of the controlled world [s].
        subtask: Name of the subtask; empty for the whole task.
        what: Which kind.
        text: More of it, such as a reason.
    """

    time: float
    subtask: str
    what: What
    text: str = ""

    def __str__(self) -> str:
        parts = [part for part in (self.subtask, self.what, self.text) if part]
        return f"{self.time:8.3f} s  {': '.join(parts)}"
