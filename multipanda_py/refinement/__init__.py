# SPDX-License-Identifier: Apache-2.0
"""A twin that is brought nearer to its plant, round by round."""

from multipanda_py.refinement.plan import RefinementPlan
from multipanda_py.refinement.refine import refine
from multipanda_py.refinement.rounds import Refinement, Round

__all__ = ["Refinement", "RefinementPlan", "Round", "refine"]
