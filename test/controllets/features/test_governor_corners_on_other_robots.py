# SPDX-License-Identifier: Apache-2.0
"""Steps of the full gate on late, heavy arms of other robots: no fault, no oscillation."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from models import over_others

from multipanda_py.pose import Pose
from multipanda_py.robots import MODELS

pytestmark = [pytest.mark.sim, pytest.mark.inline]
LATE = {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}


@pytest.mark.robustness
@pytest.mark.parametrize(
    ("law", "model"),
    over_others(["joint_impedance", "cartesian_impedance", "operational_space", "admittance"]),
)
def test_full_gate_step_does_not_oscillate(make_cell, episodes, law, model):
    rng, robot = np.random.default_rng(3), MODELS[model]
    for _ in range(episodes(1, 20)):
        q = np.array(robot.ready) + rng.uniform(-0.3, 0.3, robot.n_joints)
        arm = {"model": model, "q_start": q.tolist(), "perturbation": LATE}
        cell = make_cell({"arm": arm}, {"law": {"type": law}}, ["arm/law"])
        cell.step(20)
        gate, directions = cell.config.gate, rng.choice([-1.0, 1.0], (2, 3)) / np.sqrt(3.0)
        if law == "joint_impedance":
            step = 0.999 * gate.joint * rng.choice([-1.0, 1.0], robot.n_joints)
            low, high = robot.limits.lower + 0.05, robot.limits.upper - 0.05
            cell.set_target("arm", q=np.clip(cell.state("arm").q + step, low, high))
        else:
            here = cell.pose("arm")
            delta_rotation = pin.exp3(0.999 * gate.rotation * directions[1])
            goal = Pose(
                here.position + 0.999 * gate.position * directions[0],
                delta_rotation @ here.rotation,
            )
            cell.set_target("arm", goal)
        fastest = []
        for _ in range(2):  # near a singularity the end of the path is slow
            cell.step(2200)
            start, _ = cell.records()
            cell.step(300)
            fastest.append(np.abs(cell.records(start)[1]["arms"]["dq"]).max())
            if fastest[-1] < 0.03:
                break
        assert cell.state("arm").fault == "", q.tolist()
        assert fastest[-1] < max(0.03, 0.7 * fastest[0]), (fastest, q.tolist())
        cell.close()
