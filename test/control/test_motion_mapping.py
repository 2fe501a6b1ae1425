# SPDX-License-Identifier: Apache-2.0
"""Motion of a leader, mapped to a follower along world axes."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.teleoperation import MotionMapping

pytestmark = pytest.mark.inline


def random_rotation(rng):
    return pin.exp3(rng.normal(size=3))


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_motion_is_equal_in_world_for_any_bases(scale):
    rng = np.random.default_rng(1)
    for _ in range(20):
        base_l, base_f, r_l0, r_f0 = (random_rotation(rng) for _ in range(4))
        p_l0, p_f0, step = rng.normal(size=(3, 3))
        rotation_in_world = random_rotation(rng)
        mapping = MotionMapping(base_l, base_f)
        mapping.couple(p_l0, r_l0, p_f0, r_f0, scale)
        r_l = base_l.T @ rotation_in_world @ base_l @ r_l0
        twist_in_world = rng.normal(size=6)
        twist = np.concatenate([base_l.T @ twist_in_world[:3], base_l.T @ twist_in_world[3:]])
        mapping.follow(p_l0 + base_l.T @ step, r_l, twist)
        assert np.allclose(base_f @ (mapping.position - p_f0), scale * step, atol=1e-12)
        moved = base_f @ mapping.rotation @ (base_f @ r_f0).T
        assert np.allclose(moved, rotation_in_world, atol=1e-12)
        assert np.allclose(base_f @ mapping.twist[:3], scale * twist_in_world[:3], atol=1e-12)
        assert np.allclose(base_f @ mapping.twist[3:], twist_in_world[3:], atol=1e-12)


def test_twist_is_derivative_of_pose():
    rng = np.random.default_rng(2)
    mapping = MotionMapping(random_rotation(rng), random_rotation(rng))
    p, r, twist = rng.normal(size=3), random_rotation(rng), rng.normal(size=6)
    mapping.couple(p, r, rng.normal(size=3), random_rotation(rng), 2.0)
    h, poses = 1e-6, []
    for sign in (-1.0, 1.0):
        at = sign * h
        mapping.follow(p + at * twist[:3], pin.exp3(at * twist[3:]) @ r, twist)
        poses.append((mapping.position.copy(), mapping.rotation.copy()))
    (p0, r0), (p1, r1) = poses
    assert np.allclose((p1 - p0) / (2 * h), mapping.twist[:3], atol=1e-6)
    assert np.allclose(pin.log3(r1 @ r0.T) / (2 * h), mapping.twist[3:], atol=1e-6)
