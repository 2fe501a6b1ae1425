# SPDX-License-Identifier: Apache-2.0
"""Teleoperation of arms with input devices through a clutch; arms hold when a device fails."""

from multipanda_py.apps.teleoperation.source import (
    Clutch,
    FeelingSource,
    HandCommand,
    Source,
    Touch,
)
from multipanda_py.apps.teleoperation.teleoperator import Teleoperator

__all__ = ["Clutch", "FeelingSource", "HandCommand", "Source", "Teleoperator", "Touch"]
