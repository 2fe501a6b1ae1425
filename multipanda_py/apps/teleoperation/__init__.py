# SPDX-License-Identifier: Apache-2.0
"""Teleoperation of arms with input devices through a clutch; arms hold when a device fails."""

from multipanda_py.apps.teleoperation.source import (
    Clutch,
    ExternalWrench,
    ForceFeedbackSource,
    HandCommand,
    Source,
)
from multipanda_py.apps.teleoperation.teleoperator import Teleoperator

__all__ = [
    "Clutch",
    "ExternalWrench",
    "ForceFeedbackSource",
    "HandCommand",
    "Source",
    "Teleoperator",
]
