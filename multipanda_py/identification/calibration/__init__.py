# SPDX-License-Identifier: Apache-2.0
"""A twin that is brought nearer to its plant, round by round."""

from multipanda_py.identification.calibration.calibrate import refine
from multipanda_py.identification.calibration.rounds import Refinement, RefinementPlan, Round

__all__ = ["Refinement", "RefinementPlan", "Round", "refine"]
