# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to switch controllets: one request is open at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.pending_switch import PendingSwitch
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.state import ArmSnapshot


@dataclass
class SwitchTurn:
    """What the switches of one cell share.

    Attributes:
        specs: All instances.
        connection: To the loop; its lock is held by who reads or changes this.
        counts: Where refusals and withdrawals go.
        lifecycle: State of every instance while it is not active, by name.
        resting: Arms that take no law but hold: set inactive.
        state: Returns the newest state of an arm.
        silence_reason: Says that the loop stands still; an empty string if it runs.
        open: The request that the loop has not answered yet.
        stop_number: Of the last stop that was written for the loop.
        stops: How many were asked for: what was asked for before them is not carried out.
        ended: When the last switch was asked for that ends a controllet [s, of time.monotonic],
            and which, by the controllet's name.
    """

    specs: Sequence[InstanceSpec]
    connection: Connection
    counts: Counts
    lifecycle: Mapping[str, str]
    resting: Collection[str]
    state: Callable[[str], ArmSnapshot]
    silence_reason: Callable[[], str]
    open: PendingSwitch | None = None
    stop_number: int = 0
    stops: int = 0
    ended: dict[str, tuple[float, str]] = field(default_factory=dict)

    def unready(self) -> dict[str, str]:
        """Return why instances cannot be activated, by name."""
        reasons: dict[str, str] = {}
        for spec in self.specs:
            resting = self.resting and [arm for arm in spec.config.arms if arm in self.resting]
            if self.lifecycle[spec.name] != "inactive":
                reasons[spec.name] = "is not loaded and configured"
            elif resting and not spec.is_hold:
                reasons[spec.name] = (
                    f"arm {' and '.join(resting)} is inactive; set it active first"
                )
        return reasons
