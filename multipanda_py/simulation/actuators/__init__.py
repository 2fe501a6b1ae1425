# SPDX-License-Identifier: Apache-2.0
"""Simulation of compliant actuators; :mod:`multipanda_py.actuator` has their base class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multipanda_py.robots.actuated_joints import COMMAND_ALIASES, COMMANDS, OperationMode
from multipanda_py.simulation.actuators.joints import SCHEMES, CompliantJoints, Saved, SpringEffect
from multipanda_py.simulation.actuators.motors import LinkPid, Motors

if TYPE_CHECKING:
    from multipanda_py.simulation.actuators.robot import CompliantRobot as CompliantRobot


__all__ = [
    "COMMANDS",
    "COMMAND_ALIASES",
    "SCHEMES",
    "CompliantJoints",
    "CompliantRobot",
    "LinkPid",
    "Motors",
    "OperationMode",
    "Saved",
    "SpringEffect",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import ``CompliantRobot`` on first use (PEP 562), because it needs MuJoCo."""
    if name == "CompliantRobot":
        from multipanda_py.registry import extras_named

        with extras_named():
            from multipanda_py.simulation.actuators.robot import CompliantRobot

        return CompliantRobot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
