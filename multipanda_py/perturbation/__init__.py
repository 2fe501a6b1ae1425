# SPDX-License-Identifier: Apache-2.0
"""Twins that differ from a cell by numbers drawn from ranges."""

from multipanda_py.perturbation.spec import FR3_GEARS, TYPICAL, PerturbationSpec

__all__ = ["FR3_GEARS", "TYPICAL", "PerturbationSpec"]
