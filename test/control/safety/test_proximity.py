# SPDX-License-Identifier: Apache-2.0
"""Bounds on arm speeds and skipped distance pairs miss no relevant proximity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from configurations import READY

from multipanda_py.control.safety.collision_forces import CollisionVelocityDamper
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.control.safety.proximity import Proximity
from multipanda_py.robots import SceneObject
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

KINDS = ("arms", "self", "floor", "floor_hand")


def ends(model, data, arm, q):
    """Return the ends of all capsules of an arm in the world, (n, 3)."""
    pin.framesForwardKinematics(model, data, q)
    return np.array(
        [
            data.oMf[model.getFrameId(link)].act(np.array(end))
            for link, capsules in arm.capsules.items()
            for capsule in capsules
            for end in (capsule.start, capsule.end)
        ]
    )


def test_capsule_ends_stay_within_speed_bound_of_arm():
    maker, rng = StateMaker(2), np.random.default_rng(1)
    scene, arms = CollisionGeometry(maker.context), maker.context.arms
    models = [build_pinocchio(arm, base_in_world=True) for arm in arms]
    ratios = []
    for _ in range(100):
        states = maker.random(rng, speed=2.0)
        scene.raw[:] = np.concatenate([state.q for state in states])
        scene.v[:] = np.concatenate([state.dq for state in states])
        scene.update_placements()
        speeds = scene.speeds().reshape(2, 7).max(axis=1)
        for model, arm, state, maximum in zip(models, arms, states, speeds):
            data, step = model.createData(), 1e-7 * state.dq
            moved = ends(model, data, arm, state.q + step) - ends(model, data, arm, state.q - step)
            ratios.append(np.linalg.norm(moved, axis=1).max() / 2e-7 / maximum)
    assert max(ratios) <= 1.0
    assert np.median(ratios) > 0.5  # excludes a useless bound


def towards(maker):
    """Return rotations of the first joints that bring the hands together, (2,) [rad]."""
    y = [arm.position_base_in_world[1] for arm in maker.context.arms]
    return 0.95 * np.sign([y[1] - y[0], y[0] - y[1]])


@pytest.mark.slow
@pytest.mark.parametrize("quickness", [0.5, 1.5])
def test_relevant_pairs_agree_with_exhaustive_search(quickness):
    """Arms pass each other at changing speeds: no near pair is missed or added."""
    maker, rng = StateMaker(2), np.random.default_rng(4)
    reach = CollisionVelocityDamper().reach
    found, everything = (Proximity(maker.context, reach) for _ in range(2))
    everything.scene.speeds = lambda: np.full(14, 100.0)  # no group is skipped
    for proximity in (found, everything):
        proximity.follow(maker.states)
        proximity.choose(KINDS, 0.03)
    rates = quickness * rng.uniform(1.0, 3.0, (2, 7))
    phases, near, cycles = rng.uniform(0, 6, (2, 7)), 0, 700
    middle = READY + np.outer(towards(maker), np.eye(7)[0])
    for cycle in range(cycles):
        angle = phases + rates * 2e-3 * cycle
        maker.states_at(middle + 0.4 * np.sin(angle), 0.4 * rates * np.cos(angle))
        pairs, expected = ([(p.distance, p.rate, p.near_distance) for p in p_.find()] for p_ in
                           (found, everything))  # fmt: skip
        assert pairs == expected
        near += bool(pairs)
    assert 0 < near < cycles


def scene_of(scene_objects):
    """Return two arms next to a row of movable boxes."""
    positions = [np.array([0.5, 0.1 * k, 0.02]) for k in range(scene_objects)]
    objects = tuple(
        SceneObject(f"box{k}", "box", (0.02, 0.02, 0.02), at, mass=0.1)
        for k, at in enumerate(positions)
    )
    poses = np.array([[*at, 1.0, 0.0, 0.0, 0.0] for at in positions])
    return CollisionGeometry(replace(StateMaker(2).context, objects=objects, object_poses=poses))


def test_many_objects_slowed_start_by_groups_of_all_pairs():
    """Groups for each arm's possible grasps and a free joint each took seconds and gigabytes."""
    two, four, eight = (scene_of(n) for n in (2, 4, 8))
    groups = [len(scene.groups) for scene in (two, four, eight)]
    assert groups[2] - groups[1] == 2 * (groups[1] - groups[0]) > 0
    assert eight.model.nv == two.model.nv + 6


def test_groups_of_grasped_objects_are_cached_and_built_on_approach():
    scene, attached = scene_of(8), frozenset({(0, 3), (1, 5)})

    def among():
        return [group for group in scene.groups_with(attached) if group not in scene.groups]

    groups = among()
    assert groups == among()
    assert len(groups) == 13  # each object with six ungrasped ones, and both together
    assert sorted(group.kind for group in groups) == ["arms", *["movable_hand"] * 12]
    scene.update_placements()
    for group in groups:
        assert group.measure(scene.model, scene.data, 0.05) >= 0.0
        exact = 0.1 * abs(group.first - group.second) - 0.04
        assert bool(group.results) == (exact - 0.03 < 0.05)
        assert group.measure(scene.model, scene.data) == pytest.approx(exact)
