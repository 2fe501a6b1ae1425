# SPDX-License-Identifier: Apache-2.0
"""Reference pose with bounded speed and a tether to its tool."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.reference.bounded_pose import BoundedPose

pytestmark = pytest.mark.inline

T = 1e-3


def at(position, rotation):
    return SimpleNamespace(position_ee_in_base=position, rotation_ee_in_base=rotation)


def started(*bounds):
    pose = BoundedPose()
    pose.set_bounds(*bounds)
    pose.start(at(np.zeros(3), np.eye(3)))
    return pose


def test_distant_goal_is_approached_straight_at_speed_bounds():
    pose = started(0.5, 1.5, 1.0, 3.0)
    goal, rotation_vector = np.array([0.3, -0.2, 0.1]), np.array([0.6, 0.3, -0.5])
    rotation = pin.exp3(rotation_vector)
    for cycle in range(1, 400):
        pose.advance(goal, rotation, T)
        fraction = min(1.0, 0.5 * T * cycle / np.linalg.norm(goal))
        assert np.allclose(pose.position, fraction * goal, atol=1e-12)
        fraction = min(1.0, 1.5 * T * cycle / np.linalg.norm(rotation_vector))
        assert np.allclose(pin.log3(pose.rotation), fraction * rotation_vector, atol=1e-9)
    for _ in range(800):
        pose.advance(goal, rotation, T)
    assert np.array_equal(pose.position, goal)
    assert np.array_equal(pose.rotation, rotation)


def test_tether_keeps_reference_near_tool():
    rng = np.random.default_rng(1)
    pose = started(10.0, 10.0, 0.05, 0.3)
    tool = at(rng.normal(size=3) * 0.01, pin.exp3(rng.normal(size=3) * 0.05))
    goal, rotation = np.array([1.0, 2.0, -1.0]), pin.exp3(np.array([1.0, 0.5, -0.4]))
    for _ in range(300):
        pose.advance(goal, rotation, T)
        pose.tie(tool)
    assert np.linalg.norm(pose.position - tool.position_ee_in_base) == pytest.approx(0.05)
    relative_rotation = pin.log3(pose.rotation @ tool.rotation_ee_in_base.T)
    assert np.linalg.norm(relative_rotation) == pytest.approx(0.3)
    assert (pose.distance, pose.angle) == (0.05, 0.3)
    twist = np.ones(6)
    pose.limit(twist)
    assert not twist.any()


def test_twist_is_bounded_and_kept_without_error():
    pose = started(0.5, 1.5, 0.05, 0.3)
    pose.tie(at(np.zeros(3), np.eye(3)))
    slow, fast = np.array([0.1, 0.2, 0.0, 0.5, 0.0, 1.0]), np.array([3.0, 0, 4.0, 0, 0, -9.0])
    kept = slow.copy()
    pose.limit(kept)
    assert np.allclose(kept, slow)
    pose.limit(fast)
    assert np.allclose(fast, [0.3, 0, 0.4, 0, 0, -1.5])
