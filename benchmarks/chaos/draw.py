# SPDX-License-Identifier: Apache-2.0
"""Seeded inputs from hypothesis for tests of a node instead of a function."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf")]),
    st.floats(-2.0, 2.0),
)
"""Numbers in messages."""
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    st.sampled_from(["", "left", "right/hold", "world", "/", "~", "a" * 3000, "%s%n", "\n\n"]),
)
"""Invalid names."""


def draw(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """Return ``count`` examples of a strategy for seed ``number``."""
    examples: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(example: Any) -> None:
        examples.append(example)

    collect()
    return examples[:count]
