# SPDX-License-Identifier: Apache-2.0
"""State and model of one arm of any robot, without a running cell."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.state import ArmState


def live_arm(settings):
    """Return the state and the model of an arm of a cell file."""
    arm = describe_arm("arm", CellConfig.from_dict({"arms": {"arm": settings}}).arms["arm"])
    row = np.zeros(1, record_dtype(1, 0, 1, arm.n_joints))
    state, model = ArmState("arm", arm.limits, row["arms"][0, 0:1].reshape(())), ArmModel(arm)
    model.attach(state)
    return state, model
