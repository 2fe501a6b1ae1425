# SPDX-License-Identifier: Apache-2.0
"""A law that goes wrong on request, found as any third-party law is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multipanda_py.controllet import Controllet
from multipanda_py.parameters import choice, number
from multipanda_py.state import ArmState
from multipanda_py.targets import Target

FAULTS = ("none", "raise", "nan", "inf", "huge", "activate", "deactivate", "notify")


@dataclass(frozen=True)
class MisbehavingParams:
    """What goes wrong."""

    fault: str = choice("none", options=FAULTS)
    torque: float = number(0.0, unit="Nm", low=-1e6, high=1e6)


class Misbehaving(Controllet[Target, MisbehavingParams]):
    """Command a constant torque, and go wrong as the parameter says."""

    Params = MisbehavingParams

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        if self.params.fault == "activate":
            raise RuntimeError("this law does not start")

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        fault = self.params.fault
        if fault == "raise":
            raise RuntimeError("this law broke")
        if fault == "notify":
            for _ in range(10):
                self.context.notify("this law is at its limit")
        for tau in self.tau:
            tau[:] = {"nan": float("nan"), "inf": float("-inf"), "huge": -1e5}.get(
                fault, self.params.torque
            )

    def on_deactivate(self) -> None:
        if self.params.fault == "deactivate":
            raise RuntimeError("this law does not let go")
