# SPDX-License-Identifier: Apache-2.0
"""The plain types that sections are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_plain_types(section: Any) -> Any:
    """Return a section with lists for its tuples and arrays, and numbers for those of numpy.

    What checks a section is strict, so that ``true`` and ``"0.5"`` are no numbers, and would
    refuse these too.
    """
    if not isinstance(section, Mapping):
        return section
    return {key: _plain(value) for key, value in section.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else value
