# SPDX-License-Identifier: Apache-2.0
"""Joints with compliant actuators in a simulated world: motors, friction, controllers, modes."""

from multipanda_py.compliance.joints import SCHEMES, CompliantJoints, Push, Saved
from multipanda_py.compliance.mode import ALIASES, COMMANDS, OperationMode
from multipanda_py.compliance.motors import LinkPid, Motors
from multipanda_py.compliance.robot import CompliantRobot

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
