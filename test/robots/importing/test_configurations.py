# SPDX-License-Identifier: Apache-2.0
"""Analysis of random configurations of an arm, against MuJoCo and declared data."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.importing.configurations import RandomPostures
from multipanda_py.simulation.mjcf_elements import COLLISION_GROUP
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def capsule_pairs(model, robot):
    """Return geoms and links of all pairs of capsules of non-adjacent links."""
    names = [f"arm_{robot.name}_{link.name}" for link in robot.links]
    links = {
        geom: names.index(model.body(int(model.geom_bodyid[geom])).name)
        for geom in np.flatnonzero(model.geom_group == COLLISION_GROUP)
    }
    return [(a, b, links[a], links[b]) for a in links for b in links if links[b] - links[a] > 1]


@pytest.mark.parametrize("name", ["fr3", "ur5e"])
def test_contacts_of_links_agree_with_mujoco(name):
    robot = MODELS[name]
    sampler = RandomPostures(robot)
    model = build_scene([ArmDescription("arm", name, hand=False)]).compile()
    data = mujoco.MjData(model)
    pairs, ends = capsule_pairs(model, robot), np.zeros(6)
    observed = 0
    for q in np.random.default_rng(5).uniform(*robot.limits.span, (40, robot.n_joints)):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        expected = {
            (first, second)
            for a, b, first, second in pairs
            if mujoco.mj_geomDistance(model, data, a, b, 0.1, ends) < 0.0
        }
        assert sampler.touching(q) == expected
        observed += len(expected)
    assert observed > 0


@pytest.mark.parametrize("name", list(MODELS))
def test_frequently_overlapping_links_are_declared(name):
    assert set(RandomPostures(MODELS[name]).overlapping()) <= set(MODELS[name].overlapping)


@pytest.mark.parametrize("name", list(MODELS))
def test_ready_configuration_is_free_and_regular(name):
    robot = MODELS[name]
    q = RandomPostures(robot).ready(robot.overlapping)
    low, high = robot.limits.span
    assert (low + 0.29 < q).all()
    assert (q < high - 0.29).all()
    arm = ArmDescription("arm", dataclasses.replace(robot, ready=q), hand=False)
    model = build_scene([arm]).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    jacobian = np.zeros((6, model.nv))
    mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], model.site(arm.ee_frame).id)
    assert np.linalg.svd(jacobian, compute_uv=False)[-1] > 0.05
    site = data.site_xpos[model.site(arm.ee_frame).id]
    assert site[2] > 0.05
