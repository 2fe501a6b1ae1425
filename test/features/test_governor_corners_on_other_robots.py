# SPDX-License-Identifier: Apache-2.0
"""Steps of the whole gate on late and heavy arms of other kinds: no fault, at rest in the end."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from models import over_others

from multipanda_py.pose import Pose
from multipanda_py.robots import MODELS

pytestmark = pytest.mark.sim
LATE = {"delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}


@pytest.mark.robustness
@pytest.mark.parametrize(
    ("law", "model"),
    over_others(["joint_impedance", "cartesian_impedance", "operational_space", "admittance"]),
)
def test_a_step_of_the_whole_gate_ends_at_rest(make_cell, episodes, law, model):
    rng, robot = np.random.default_rng(3), MODELS[model]
    for _ in range(episodes(1, 20)):
        q = np.array(robot.ready) + rng.uniform(-0.3, 0.3, robot.n_joints)
        arm = {"model": model, "q_start": q.tolist(), "perturbation": LATE}
        cell = make_cell({"arm": arm}, {"law": {"type": law}}, ["arm/law"])
        cell.step(20)
        gate, ways = cell.config.gate, rng.choice([-1.0, 1.0], (2, 3)) / np.sqrt(3.0)
        if law == "joint_impedance":
            step = 0.999 * gate.joint * rng.choice([-1.0, 1.0], robot.n_joints)
            cell.set_target("arm", q=cell.state("arm").q + step)
        else:
            here = cell.pose("arm")
            turn = pin.exp3(0.999 * gate.rotation * ways[1])
            goal = Pose(here.position + 0.999 * gate.position * ways[0], turn @ here.rotation)
            cell.set_target("arm", goal)
        cell.step(2500)
        start, _ = cell.rows()
        cell.step(300)
        dq = cell.rows(start)[1]["arms"]["dq"]
        assert cell.state("arm").fault == "", q.tolist()
        assert np.abs(dq).max() < 0.03, q.tolist()
        cell.close()
