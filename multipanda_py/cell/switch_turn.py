# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to switch controllets: one request is open at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
        state: Returns the newest state of an arm.
        silence_reason: Says that the loop stands still; an empty string if it runs.
        open: The request that the loop has not answered yet.
        stop_number: Of the last stop that was asked for.
    """

    specs: Sequence[InstanceSpec]
    connection: Connection
    counts: Counts
    lifecycle: Mapping[str, str]
    state: Callable[[str], ArmSnapshot]
    silence_reason: Callable[[], str]
    open: PendingSwitch | None = None
    stop_number: int = 0

    def unready(self) -> list[str]:
        """Return instances that are not loaded or not configured."""
        return [name for name, state in self.lifecycle.items() if state != "inactive"]
