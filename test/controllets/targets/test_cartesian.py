# SPDX-License-Identifier: Apache-2.0
"""Refusal of wrenches that an arm cannot exert, with joint, requested and allowed torque."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from configurations import READY

from multipanda_py.config.describe import describe_arm
from multipanda_py.controllets.targets.cartesian import check_exertable
from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots.dynamics.arm_dynamics import ToolJacobian
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = pytest.mark.inline


def mujoco_jacobian(cell, q):
    """Return the end-effector Jacobian by MuJoCo, independent of the tested model."""
    model = cell.simulation.model
    data = mujoco.MjData(model)
    for joint in range(7):
        data.qpos[model.joint(f"arm_fr3_joint{joint + 1}").qposadr[0]] = q[joint]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, linear, angular, model.site("arm_fr3_hand_tcp").id)
    first = int(model.joint("arm_fr3_joint1").dofadr[0])
    return np.vstack([linear, angular])[:, first : first + 7]


@pytest.mark.sim
def test_exertable_wrench_bound_matches_mujoco(make_cell):
    cell = make_cell(arms={"arm": {}}, controllets={})
    tool = ToolJacobian(describe_arm("arm", cell.config.arms["arm"]))
    rng = np.random.default_rng(4)
    named = set()
    for _ in range(100):
        q = rng.uniform(FR3_LIMITS.lower, FR3_LIMITS.upper)
        jacobian = mujoco_jacobian(cell, q)
        np.testing.assert_allclose(tool.compute(q), jacobian, atol=1e-9)
        direction = rng.normal(size=6) * np.repeat((1.0, 0.2), 3)
        fractions = np.abs(jacobian.T @ direction) / FR3_LIMITS.torque
        maximum = 0.9 * direction / fractions.max()
        check_exertable(0.9999 * maximum, tool.compute(q), FR3_LIMITS, "arm")
        worst = int(np.argmax(fractions))
        allowed = 0.9 * FR3_LIMITS.torque[worst]
        text = rf"joint {worst + 1} .*arm: wrench .* Nm .*\b{allowed:.2f} Nm"
        with pytest.raises(TargetRejected, match=text):
            check_exertable(1.0001 * maximum, tool.compute(q), FR3_LIMITS, "arm")
        named.add(worst)
    assert len(named) > 3


@pytest.mark.sim
def test_torque_limit_of_wrist_bounds_gate_force(make_cell):
    laws = {"law": {"type": "cartesian_impedance"}}
    cell = make_cell(arms={"arm": {"q_start": READY}}, controllets=laws, active=["arm/law"])
    cell.step(20)
    down = [0.0, 0.0, -99.9, 0.0, 0.0, 0.0]  # 8.8 Nm of joint 6
    cell.set_target("arm", wrench=down)
    with pytest.raises(TargetRejected, match=r"joint 6\b.*\barm:.*\b21\.0\d Nm.*\b10\.80 Nm"):
        cell.set_target("arm", wrench=[99.9, 0.0, 0.0, 0.0, 0.0, 0.0])
    cell.step(2)
    np.testing.assert_array_equal(cell.records()[1]["arms"]["target_wrench"][-1, 0], down)
