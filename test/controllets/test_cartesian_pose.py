# SPDX-License-Identifier: Apache-2.0
"""Poses of arms that are commanded positions: kinematics, limits, unreachable goals."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.differential_ik import PositionIK
from multipanda_py.pose import Pose
from multipanda_py.testing import StateMaker, simple_cell

pytestmark = pytest.mark.inline

T = 1e-3
LAWS = {"pose": {"type": "cartesian_pose", "features": [""]}}


def make(model="fr3", **arm):
    return simple_cell(arms={"left": {"model": model, "gripper": False, **arm}}, controllets=LAWS,
                       active=["left/pose"], gate={"position": 2.0, "rotation": 3.1})  # fmt: skip


def commands(cell, cycles):
    found = [np.copy(cell.latest_record()["arms"][0]["joint_command"])]
    for _ in range(cycles):
        cell.step(1)
        found.append(np.copy(cell.latest_record()["arms"][0]["joint_command"]))
    return np.array(found)


def keeps_limits(found, limits):
    q = found[:, 0]
    for maximum in (limits.velocity, limits.acceleration, limits.jerk):
        q = np.diff(q, axis=0) / T
        assert (np.abs(q) <= maximum * (1.0 + 1e-3)).all(), (np.abs(q) / maximum).max()


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_rates_follow_twist_and_nullspace_leaves_end_effector_at_rest(model):
    """Against differences of the pose that the dynamics model computes."""
    rng, maker = np.random.default_rng(4), StateMaker(1, model)
    ik = PositionIK(maker.context.arms[0])
    n = maker.states[0].n_joints
    zero, free = np.zeros(6), (np.full(n, -99.0), np.full(n, 99.0))
    for _ in range(20):
        (state,) = maker.random(rng, margin=0.3)
        q, here = state.q.copy(), state.position_ee_in_base.copy()
        rotation, smallest = state.rotation_ee_in_base.copy(), np.linalg.svd(state.jacobian)[1][-1]
        if smallest < 0.11:
            continue
        configuration = q + rng.uniform(-0.5, 0.5, len(q))
        twist = rng.uniform(-0.2, 0.2, 6)
        dq = ik.rate(q, here, rotation, twist, 20.0, configuration, 1.0, free)
        assert ik.smallest == pytest.approx(smallest, rel=1e-6)
        h = 1e-6
        (after,) = maker.states_at([q + h * dq])
        np.testing.assert_allclose((after.position_ee_in_base - here) / h, twist[:3], atol=1e-5)
        change = (after.rotation_ee_in_base @ rotation.T - np.eye(3)) / h
        np.testing.assert_allclose(
            [change[2, 1], change[0, 2], change[1, 0]], twist[3:], atol=1e-5
        )
        rest = ik.rate(q, here, rotation, zero, 20.0, configuration, 1.0, free)
        (after,) = maker.states_at([q + h * rest])
        np.testing.assert_allclose(after.position_ee_in_base, here, atol=1e-5 * h * 10 + 1e-11)
        assert (np.linalg.norm(rest) > 1e-6) == (len(q) > 6)


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_pose_is_reached_and_commands_keep_limits(model):
    with make(model) as cell:
        here = cell.pose("left")
        goal_rotation = Pose.from_rpy([0, 0, 0], [0.2, -0.1, 0.3]).rotation @ here.rotation
        goal = Pose(here.position + np.array([-0.05, 0.1, -0.08]), goal_rotation)
        cell.set_target("left", goal)
        found = commands(cell, 1200)
        now = cell.pose("left")
        assert np.linalg.norm(now.position - goal.position) < 1e-4
        assert np.abs(now.rotation - goal.rotation).max() < 1e-3
        keeps_limits(found, cell.descriptions["left"].limits)
        assert cell.state("left").fault == ""


@pytest.mark.slow
def test_pose_out_of_reach_is_approached_without_oscillation():
    with make() as cell:
        here = cell.pose("left")
        cell.set_target("left", Pose(here.position + np.array([0.9, 0.3, 0.2]), here.rotation))
        found = commands(cell, 4000)
        keeps_limits(found, cell.descriptions["left"].limits)
        assert np.abs(found[-500:, 1]).max() < 0.05
        assert cell.state("left").fault == ""
        cell.set_target("left", here)  # and back
        cell.step(4000)
        assert np.linalg.norm(cell.pose("left").position - here.position) < 1e-3
