# SPDX-License-Identifier: Apache-2.0
"""Things that are closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType

from typing_extensions import Self


class Closing(ABC):
    """Something that ``with`` closes, whatever happens in the block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; safe to call twice."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
