# SPDX-License-Identifier: Apache-2.0
"""Collision-free joint configurations of an FR3 in its whole workspace."""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np

from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import simple_cell

READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
"""Joint configuration of an FR3 with its gripper in front of the base, (7,) [rad]."""
OVER_TABLE = [0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785]
"""Joint configuration of an FR3 with its tool pointing down in front of the base [rad]."""
CLEARANCE = 0.03
"""Minimum distance between any two parts [m]."""


@cache
def _world():
    cell = simple_cell({"arm": {}}, {})
    cell.start()
    model, qpos = cell.simulation.model, cell.simulation.data.qpos.copy()
    cell.close()
    model.geom_margin[:] = CLEARANCE
    data = mujoco.MjData(model)
    data.qpos[:] = qpos  # with open fingers
    return model, data


def stretched(maker, elbow, dq=None):
    """Return the state of an FR3 with an elbow angle [rad]; the singularity is at 0."""
    q = np.array([0.2, 0.3, 0.1, elbow, 0.2, 1.8, 0.3])
    (state,) = maker.states_at([q], None if dq is None else [dq])
    return state


def anywhere(rng, margin=0.3):
    """Return a random collision-free configuration ``margin`` [rad] inside the limits, (7,)."""
    model, data = _world()
    addresses = [model.joint(f"arm_fr3_joint{joint + 1}").qposadr[0] for joint in range(7)]
    while True:
        q = rng.uniform(FR3_LIMITS.lower + margin, FR3_LIMITS.upper - margin)
        data.qpos[addresses] = q
        mujoco.mj_forward(model, data)
        if data.ncon == 0:
            return q
