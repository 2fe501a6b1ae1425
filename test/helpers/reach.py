# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of any robot, for start configurations of tests."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

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


def posture_at(settings, position, rotation, starts=40, seed=0):
    """Return a joint configuration with the tool at a pose in the base of the arm, (n,).

    Gauss-Newton starts from random configurations around the ready configuration. The result is
    the one with the maximum smallest singular value, at least 0.2 rad from all limits.
    """
    state, model = live_arm(settings)
    limits, rng, best, found = state.limits, np.random.default_rng(seed), 0.0, None
    ready = np.array(model.arm.robot.ready)
    for _ in range(starts):
        state.q[:] = np.clip(ready + rng.normal(size=len(ready)) * 0.6, limits.lower, limits.upper)
        for _ in range(60):
            model.update(state)
            rotation_error = pin.log3(rotation @ state.rotation_ee_in_base.T)
            error = np.concatenate([position - state.position_ee_in_base, rotation_error])
            j = state.jacobian
            step = j.T @ np.linalg.solve(j @ j.T + 1e-6 * np.eye(6), error)
            state.q[:] += step * min(1.0, 0.3 / max(1e-9, np.abs(step).max()))
            if np.abs(error).max() < 1e-9:
                break
        limit_distance = np.minimum(state.q - limits.lower, limits.upper - state.q).min()
        if np.abs(error).max() > 1e-9 or limit_distance < 0.2:
            continue
        smallest = np.linalg.svd(state.jacobian, compute_uv=False)[-1]
        if smallest > best:
            best, found = smallest, state.q.copy()
    return found
