# SPDX-License-Identifier: Apache-2.0
"""Teleoperation of arms with input devices and a clutch; arms hold when a device fails."""

from multipanda_py.apps.teleoperation.source import (
    Clutch,
    DeviceCommand,
    ExternalWrench,
    ForceFeedbackSource,
    Source,
)
from multipanda_py.apps.teleoperation.teleoperator import Teleoperator

__all__ = [
    "Clutch",
    "DeviceCommand",
    "ExternalWrench",
    "ForceFeedbackSource",
    "Source",
    "Teleoperator",
]
