# SPDX-License-Identifier: Apache-2.0
"""Iterative calibration of a simulated twin against its plant (a real or simulated cell)."""

from multipanda_py.identification.calibration.calibrate import refine
from multipanda_py.identification.calibration.rounds import Refinement, RefinementPlan, Round

__all__ = ["Refinement", "RefinementPlan", "Round", "refine"]
