# SPDX-License-Identifier: Apache-2.0
"""Simulated Franka robots that an unmodified libfranka connects to, over loopback.

They speak the Franka Control Interface (:mod:`~multipanda_py.simulation.fci.wire`) and behave as
far as a client can tell like FR3s: modes, motions, lost commands, reflexes, recovery. Everything
that a driver does can so be tested without a robot.

Not simulated: the Cartesian impedance controller (its motions run, followed by the joint
impedance), Cartesian position and self-collision limits, power limits, collision thresholds
while accelerating, friction, noise and the filters of the external torques.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipanda_py.simulation.fci.process import FciSim as FciSim

__all__ = ["FciSim"]


def __getattr__(name: str) -> object:
    """Import the handle on first use (PEP 562): it needs MuJoCo."""
    if name == "FciSim":
        return import_module(f"{__name__}.process").FciSim
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
