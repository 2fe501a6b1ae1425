# SPDX-License-Identifier: Apache-2.0
"""A hand described as a rigid tool has the same motion and reach."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.part_rules import with_rigid_hand
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio

pytestmark = pytest.mark.inline

TOOL = {
    "mass": 0.4, "com": [0.01, 0.0, 0.15], "inertia": [2e-3, 2e-3, 1e-3, 0.0, 0.0, 0.0],
    "position": [0.0, 0.02, 0.3], "rpy": [0.3, 0.0, 0.1],
}  # fmt: skip


@pytest.mark.parametrize("own", [{}, {"tool": TOOL}])
def test_rigid_hand_has_mass_and_length_of_hand(own):
    arm = CellConfig.from_dict({"arms": {"arm": own}}).arms["arm"]
    rigid = with_rigid_hand(arm)
    assert rigid.gripper is False
    rng, found = np.random.default_rng(0), []
    for description in (describe_arm("arm", arm), describe_arm("arm", rigid)):
        model = build_pinocchio(description)
        data, q = model.createData(), np.array(arm.q_start) + 0.3 * rng.normal(size=7)
        rng = np.random.default_rng(0)
        mass = pin.crba(model, data, q)
        pin.framesForwardKinematics(model, data, q)
        tip = data.oMf[model.getFrameId(description.ee_frame)].homogeneous
        weight = pin.computeGeneralizedGravity(model, data, q)
        found.append((np.triu(mass), weight, tip))
    for hand, tool in zip(*found):
        np.testing.assert_allclose(tool, hand, atol=1e-9)


def test_arm_without_hand_stays_unchanged():
    arm = CellConfig.from_dict({"arms": {"arm": {"gripper": False, "tool": TOOL}}}).arms["arm"]
    assert with_rigid_hand(arm) is arm
