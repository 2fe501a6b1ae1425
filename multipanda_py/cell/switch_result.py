# SPDX-License-Identifier: Apache-2.0
"""What a switch of controllets did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SwitchResult:
    """What a switch did.

    Attributes:
        activated: Instances that became active.
        deactivated: Instances that stopped.
        skipped: What a best-effort switch left out, and why.
        missing: Instances that were to be active and are not: it did not do what was asked for.
        delay: From the request to the first cycle of the new laws [s].
        handed_over: What the arms were pressing with and go on with, or let go of.
        notices: What the new laws gave notice of in their first cycle.
        rested: Arms that were brought to rest first, to be commanded something else.
    """

    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]
    delay: float
    handed_over: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    rested: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Say it in a sentence."""
        parts = [f"not active: {', '.join(self.missing)}"] if self.missing else []
        parts += [
            f"active: {', '.join(self.activated) or 'nothing new'}",
            f"deactivated: {', '.join(self.deactivated) or 'nothing'}",
            f"{self.delay * 1e3:.3f} ms from request to first cycle",
        ]
        if self.rested:
            parts.append(f"{' and '.join(self.rested)} brought to rest first")
        parts += [*self.handed_over, *self.notices]
        if self.skipped:
            parts.append(f"left out: {'; '.join(self.skipped)}")
        return "; ".join(parts)
