# SPDX-License-Identifier: Apache-2.0
"""What the watch of a driver needs to know of its settings."""

from __future__ import annotations

from typing import Protocol


class AnyDriverSettings(Protocol):
    """One driver's settings.

    Attributes:
        peer: What the driver speaks with, in words: ``robot 172.16.0.2``.
        no_answer: What it means if it has nothing to say of it, in words.
        answer_budget: How long the driver waits for the loop's torque [s].
    """

    @property
    def peer(self) -> str: ...  # noqa: D102
    @property
    def no_answer(self) -> str: ...  # noqa: D102
    @property
    def answer_budget(self) -> float: ...  # noqa: D102

    def to_json(self) -> str:
        """Return one line of JSON."""
        ...
