# SPDX-License-Identifier: Apache-2.0
"""Devices in a hand that move arms, through a clutch; the arms hold when a device fails."""

from multipanda_py.apps.teleoperation.source import (
    Clutch,
    FeelingSource,
    HandCommand,
    Source,
    Touch,
)
from multipanda_py.apps.teleoperation.teleoperator import Teleoperator

__all__ = ["Clutch", "FeelingSource", "HandCommand", "Source", "Teleoperator", "Touch"]
