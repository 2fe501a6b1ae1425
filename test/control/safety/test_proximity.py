# SPDX-License-Identifier: Apache-2.0
"""What is not measured could not have mattered: speeds of arms, and pairs that they come near."""

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


def test_no_end_of_a_capsule_is_faster_than_its_arm_is_said_to_be():
    maker, rng = StateMaker(2), np.random.default_rng(1)
    scene, arms = CollisionGeometry(maker.context), maker.context.arms
    models = [build_pinocchio(arm, base_in_world=True) for arm in arms]
    shares = []
    for _ in range(100):
        states = maker.random(rng, speed=2.0)
        scene.raw[:] = np.concatenate([state.q for state in states])
        scene.v[:] = np.concatenate([state.dq for state in states])
        scene.update_placements()
        speeds = scene.speeds().reshape(2, 7).max(axis=1)
        for model, arm, state, maximum in zip(models, arms, states, speeds):
            data, step = model.createData(), 1e-7 * state.dq
            moved = ends(model, data, arm, state.q + step) - ends(model, data, arm, state.q - step)
            shares.append(np.linalg.norm(moved, axis=1).max() / 2e-7 / maximum)
    assert max(shares) <= 1.0
    assert np.median(shares) > 0.5  # a bound that is no use would be true as well


def towards(maker):
    """Return turns of the first joints that have the hands near each other, (2,) [rad]."""
    y = [arm.position_base_in_world[1] for arm in maker.context.arms]
    return 0.95 * np.sign([y[1] - y[0], y[0] - y[1]])


@pytest.mark.slow
@pytest.mark.parametrize("quickness", [0.5, 1.5])
def test_pairs_that_matter_are_those_of_looking_at_all_of_them(quickness):
    """Arms pass each other at changing speeds; nothing near is missed, nothing else returned."""
    maker, rng = StateMaker(2), np.random.default_rng(4)
    reach = CollisionVelocityDamper().reach
    found, everything = (Proximity(maker.context, reach) for _ in range(2))
    everything.scene.speeds = lambda: np.full(14, 100.0)  # so that no group is far or slow enough
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
    """Return two arms beside a row of boxes that can be moved."""
    place = [np.array([0.5, 0.1 * k, 0.02]) for k in range(scene_objects)]
    objects = tuple(
        SceneObject(f"box{k}", "box", (0.02, 0.02, 0.02), at, mass=0.1)
        for k, at in enumerate(place)
    )
    poses = np.array([[*at, 1.0, 0.0, 0.0, 0.0] for at in place])
    return CollisionGeometry(replace(StateMaker(2).context, objects=objects, object_poses=poses))


def test_many_things_made_starts_slow_as_every_two_of_them_had_groups():
    """Of each arm that may hold one, or both; and a free joint each: seconds and gigabytes."""
    two, four, eight = (scene_of(n) for n in (2, 4, 8))
    groups = [len(scene.groups) for scene in (two, four, eight)]
    assert groups[2] - groups[1] == 2 * (groups[1] - groups[0]) > 0
    assert eight.model.nv == two.model.nv + 6


def test_groups_of_held_things_among_others_are_made_once_and_built_when_they_may_be_near():
    scene, held = scene_of(8), frozenset({(0, 3), (1, 5)})

    def among():
        return [group for group in scene.groups_with(held) if group not in scene.groups]

    groups = among()
    assert groups == among()
    assert len(groups) == 13  # either thing and six that nobody holds, and both
    assert sorted(group.kind for group in groups) == ["arms", *["movable_hand"] * 12]
    scene.update_placements()
    for group in groups:
        assert group.measure(scene.model, scene.data, 0.05) >= 0.0
        exact = 0.1 * abs(group.first - group.second) - 0.04
        assert bool(group.results) == (exact - 0.03 < 0.05)
        assert group.measure(scene.model, scene.data) == pytest.approx(exact)
