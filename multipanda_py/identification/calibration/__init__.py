# SPDX-License-Identifier: Apache-2.0
"""Iterative calibration of a simulated twin against its plant (a real or simulated cell)."""

from multipanda_py.identification.calibration.calibrate import calibrate
from multipanda_py.identification.calibration.rounds import Calibration, CalibrationPlan, Round

__all__ = ["Calibration", "CalibrationPlan", "Round", "calibrate"]
