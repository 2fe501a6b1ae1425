# SPDX-License-Identifier: Apache-2.0
"""Kinematic chain of an arm in the format of residuals, from its pinocchio model."""

from __future__ import annotations

import numpy as np

from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity


def parts_of(arm):
    """Return placements, axes, joint types and gravity; all joints rotate about their z axis."""
    model = model_with_gravity(arm)
    return {
        "placements": np.array([placement.homogeneous for placement in model.jointPlacements[1:]]),
        "axes": np.tile([0.0, 0.0, 1.0], (model.nv, 1)),
        "slides": np.zeros(model.nv),
        "gravity": np.array(model.gravity.linear),
    }
