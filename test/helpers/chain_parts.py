# SPDX-License-Identifier: Apache-2.0
"""The chain of an arm as residuals store it, read from pinocchio's model of it."""

from __future__ import annotations

import numpy as np

from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity


def parts_of(arm):
    """Return placements, axes, kinds of joints and gravity; the joints turn about their z."""
    model = model_with_gravity(arm)
    return {
        "placements": np.array([place.homogeneous for place in model.jointPlacements[1:]]),
        "axes": np.tile([0.0, 0.0, 1.0], (model.nv, 1)),
        "slides": np.zeros(model.nv),
        "gravity": np.array(model.gravity.linear),
    }
