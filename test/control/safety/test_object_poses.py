# SPDX-License-Identifier: Apache-2.0
"""Object placements agree with pinocchio's free joints, without their degrees of freedom."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.safety.collision_geometry import ObjectPlacements

pytestmark = pytest.mark.inline


def test_placements_agree_with_free_joints():
    rng, n = np.random.default_rng(1), 5
    free, own = pin.Model(), pin.Model()
    own.addJoint(0, pin.JointModelRZ(), pin.SE3.Random(), "arm")
    for k in range(n):
        free.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), f"thing{k}")
        own.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), f"thing{k}")
    data, expected, poses = own.createData(), free.createData(), np.zeros((n, 7))
    placements, q = ObjectPlacements(data, range(2, 2 + n), poses), np.zeros(own.nq)
    for _ in range(20):
        poses[:, :3] = rng.normal(size=(n, 3))
        quaternions = rng.normal(size=(n, 4))
        poses[:, 3:] = quaternions / np.linalg.norm(quaternions, axis=1)[:, None]
        q[0] = rng.normal()
        pin.forwardKinematics(own, data, q)
        arm = data.oMi[1].copy()
        placements.write()
        pin.forwardKinematics(free, expected, poses[:, [0, 1, 2, 4, 5, 6, 3]].reshape(-1))
        for k in range(n):
            assert np.allclose(data.oMi[2 + k], expected.oMi[1 + k], atol=1e-14)
        assert np.array_equal(data.oMi[1], arm)


def test_no_objects_are_accepted():
    model = pin.Model()
    ObjectPlacements(model.createData(), range(1, 1), np.zeros((0, 7))).write()
