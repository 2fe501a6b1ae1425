# SPDX-License-Identifier: Apache-2.0
"""Joints with compliant actuators in a simulated world: motors, friction, controllers, modes.

The robot alone needs mujoco, and is imported on first use: cells know the modes without it.
"""

from typing import TYPE_CHECKING

from multipanda_py.compliance.joints import SCHEMES, CompliantJoints, Push, Saved
from multipanda_py.compliance.mode import ALIASES, COMMANDS, OperationMode
from multipanda_py.compliance.motors import LinkPid, Motors

if TYPE_CHECKING:
    from multipanda_py.compliance.robot import CompliantRobot as CompliantRobot

__all__ = [
    "ALIASES",
    "COMMANDS",
    "SCHEMES",
    "CompliantJoints",
    "CompliantRobot",
    "LinkPid",
    "Motors",
    "OperationMode",
    "Push",
    "Saved",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import the robot on first use (PEP 562)."""
    if name == "CompliantRobot":
        from multipanda_py.extras import extras_named

        with extras_named():
            from multipanda_py.compliance.robot import CompliantRobot

        return CompliantRobot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
