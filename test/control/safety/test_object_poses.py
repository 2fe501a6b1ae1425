# SPDX-License-Identifier: Apache-2.0
"""Things are where free joints of pinocchio would have them, without their degrees of freedom."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.safety.collision_geometry import ObjectPlacements

pytestmark = pytest.mark.inline


def test_placements_are_those_of_free_joints():
    rng, n = np.random.default_rng(1), 5
    free, own = pin.Model(), pin.Model()
    own.addJoint(0, pin.JointModelRZ(), pin.SE3.Random(), "arm")
    for k in range(n):
        free.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), f"thing{k}")
        own.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), f"thing{k}")
    data, expected, poses = own.createData(), free.createData(), np.zeros((n, 7))
    places, q = ObjectPlacements(data, range(2, 2 + n), poses), np.zeros(own.nq)
    for _ in range(20):
        poses[:, :3] = rng.normal(size=(n, 3))
        turns = rng.normal(size=(n, 4))
        poses[:, 3:] = turns / np.linalg.norm(turns, axis=1)[:, None]
        q[0] = rng.normal()
        pin.forwardKinematics(own, data, q)
        arm = data.oMi[1].copy()
        places.write()
        pin.forwardKinematics(free, expected, poses[:, [0, 1, 2, 4, 5, 6, 3]].reshape(-1))
        for k in range(n):
            assert np.allclose(data.oMi[2 + k], expected.oMi[1 + k], atol=1e-14)
        assert np.array_equal(data.oMi[1], arm)


def test_no_thing_is_nothing():
    model = pin.Model()
    ObjectPlacements(model.createData(), range(1, 1), np.zeros((0, 7))).write()
