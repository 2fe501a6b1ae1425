# SPDX-License-Identifier: Apache-2.0
"""Simulated Franka robots, to which an unmodified libfranka connects over loopback.

The robots implement the Franka Control Interface (:mod:`~multipanda_py.simulation.fci.wire`), with
modes, motions, lost commands, reflexes and recovery of an FR3. With them, the complete driver is
tested without a real robot.

Motions for the Cartesian impedance controller run with the joint impedance controller. Friction
and noise are simulated only if a cell file defines them. The following is not simulated:

- Cartesian position limits, self-collision limits and power limits,
- collision thresholds during acceleration,
- the filters of a real robot for its estimate of external torques.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipanda_py.simulation.fci.process import FciSim as FciSim

__all__ = ["FciSim"]


def __getattr__(name: str) -> object:
    """Import ``FciSim`` on first use (PEP 562), because it needs MuJoCo."""
    if name == "FciSim":
        return import_module(f"{__name__}.process").FciSim
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
