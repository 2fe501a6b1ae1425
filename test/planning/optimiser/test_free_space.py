# SPDX-License-Identifier: Apache-2.0
"""Free space by coal against the solver's own distances."""

from __future__ import annotations

import numpy as np
import pytest
from optimiser_scenes import scene_of_two

from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.free_space import DISTANCE_TOLERANCE, free_space
from multipanda_py.planning.optimiser.goals import Axis, PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.pose import Pose

pytestmark = pytest.mark.inline
GRIP = Pose(np.array([0.0, 0.02, 0.1]), np.diag([1.0, -1.0, -1.0]))


SCENE = scene_of_two()
IN_HAND = PoseGoal("can", GRIP, "left/tool")
DISTANCES = [*clearances(SCENE, [IN_HAND], 0.02), Distance(SCENE, "can", "table", 0.01)]


def space_of(*goals):
    problem = Problem(SCENE, 1, 4, 2.0)
    for one in (*goals, *DISTANCES):
        problem.add(one)
    return free_space(SCENE, problem.terms)


def random_configurations(count):
    rng = np.random.default_rng(3)
    return rng.uniform(SCENE.lower[:14], SCENE.upper[:14], (count, 14))


def smallest(slices):
    """Return the smallest remaining distance of each slice, by the solver, (s,)."""
    frames = dict.fromkeys(name for one in DISTANCES for name in one.frames)
    placed = Kinematics(SCENE, frames).forward_kinematics(slices)
    return -np.max([one.evaluate(placed)[0].max(axis=1) for one in DISTANCES], axis=0)


def test_free_space_agrees_with_solver_distances():
    space = space_of(IN_HAND)
    configurations = random_configurations(300)
    spare = smallest(space.with_attached_objects(configurations))
    reported = np.array([space.is_free(q) for q in configurations])
    clear = np.abs(spare + DISTANCE_TOLERANCE) > 1e-6
    assert 30 < reported.sum() < 270
    assert (reported == (spare > -DISTANCE_TOLERANCE))[clear].all()
    spared = space.sparing(0.5, 1e-3)
    assert all(spared.is_free(q) for q in configurations[reported])
    assert sum(spared.is_free(q) for q in configurations) > reported.sum()
    assert sum(space.is_free(q) for q in configurations) == reported.sum()  # unchanged


def test_attached_object_moves_with_tool():
    [slice_] = space_of(IN_HAND).with_attached_objects(random_configurations(1))
    tool = Kinematics(SCENE, ["left/tool"]).forward_kinematics(slice_[None]).frames["left/tool"]
    expected = Pose(tool.position[0], tool.rotation[0]) @ GRIP
    found = SCENE.pose(slice_, "can")
    assert found.position == pytest.approx(expected.position, abs=1e-12)
    assert found.rotation == pytest.approx(expected.rotation, abs=1e-9)


def test_nearest_pair_and_distance_are_reported():
    space = space_of(IN_HAND)
    q = next(q for q in random_configurations(300) if not space.is_free(q))
    (first, second), distance = space.too_near(q)
    assert distance < 0.02
    assert {first, second} <= {*SCENE.arms, *SCENE.objects}
    assert space.nearest(q) <= distance + 1e-12


def test_no_free_space_without_attachment_or_distances():
    assert space_of() is None  # the can is not attached
    assert space_of(Axis("can", [0.0, 0.0, 1.0], [0.0, 0.0, 1.0])) is None
    assert free_space(SCENE, Problem(SCENE, 1, 4, 2.0).add(IN_HAND).terms) is None  # no distances
