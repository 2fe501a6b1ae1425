# SPDX-License-Identifier: Apache-2.0
"""Paths to distant goals, collision-free also between slices."""

from __future__ import annotations

import time

import numpy as np
import pytest
from long_form import LONG

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.free_space import INTERVALS_PER_STEP, between, too_close
from multipanda_py.planning.optimiser.goals import PoseGoal, Position
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.path_search import find_path
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.optimiser.term import (
    Near,
    Rest,
    Smoothness,
    VelocityLimits,
    WithinLimits,
)
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject

pytestmark = pytest.mark.inline
PATIENT = SolverSettings(time=60.0)
GOALS = 100 if LONG else 2


def two_arms(apart=0.6, objects=()):
    arms = [
        ArmDescription(name, position_base_in_world=np.array([0.0, y, 0.0]))
        for name, y in (("left", 0.5 * apart), ("right", -0.5 * apart))
    ]
    return Scene(arms, objects)


def path_problem(scene, goals, slices=20, distances=None):
    problem = Problem(scene, 1, slices, 6.0).add(Smoothness(), "cost", scale=0.3)
    problem.add(WithinLimits()).add(VelocityLimits()).add(Rest(), at=1)
    for distance in clearances(scene, goals) if distances is None else distances:
        problem.add(distance)
    for goal in goals:
        problem.add(goal, at=1)
    return problem


def nearest_solids(scene, path):
    """Return the minimum distance of solids in slices and between them, finely sampled."""
    full = np.concatenate([scene.start[None], path])
    at = np.linspace(0.0, len(path), 40 * len(path) + 1)
    fine = np.stack([np.interp(at, np.arange(len(full)), column) for column in full.T], 1)
    placed = Kinematics(scene, scene.frame_names).forward_kinematics(fine)
    return min(d.margin - d.evaluate(placed)[0].max() for d in clearances(scene))


def random_goals(scene, rng):
    """Return poses of both tools in a random collision-free configuration."""
    while True:
        q = rng.uniform(scene.lower + 0.1, scene.upper - 0.1)
        placed = Kinematics(scene, scene.frame_names).forward_kinematics(q[None])
        tools = [placed.frames[f"{arm}/tool"] for arm in scene.arms]
        apart = min(d.margin - d.evaluate(placed)[0].max() for d in clearances(scene))
        if apart > 0.01 and min(tool.position[0, 2] for tool in tools) > 0.05:
            return [
                PoseGoal(f"{arm}/tool", Pose(tool.position[0], tool.rotation[0]))
                for arm, tool in zip(scene.arms, tools)
            ]


def test_two_arms_reach_random_goals_without_collision():
    scene, rng = two_arms(), np.random.default_rng(0)
    solved = 0
    for _ in range(GOALS):
        found = find_path(path_problem(scene, random_goals(scene, rng)), settings=PATIENT)
        if found.is_feasible:
            solved += 1
            assert nearest_solids(scene, found.path) > 0.0
    assert solved >= 0.95 * GOALS


def test_same_seed_finds_same_path():
    scene = two_arms()
    goals = random_goals(scene, np.random.default_rng(4))
    first, second = (
        find_path(path_problem(scene, goals, 8), settings=PATIENT).path for _ in range(2)
    )
    assert np.array_equal(first, second)


@pytest.mark.parametrize("reach", [0.5, 2.0])
def test_unreachable_goal_ends_by_contradiction_before_timeout(reach):
    scene = two_arms()
    far = Position("left/tool", [0.8 + reach, 0.3, 0.5])
    begin = time.process_time()
    found = find_path(path_problem(scene, [far]), settings=PATIENT)
    took = time.process_time() - begin
    assert found.ended == "contradiction"
    assert found.violations[0].step == 19
    assert found.violations[0].unit == "m"
    assert "Position(left/tool world)" in found.reason
    assert took < 2.0  # of CPU time; an idle machine takes a quarter


def test_collision_between_slices_is_found():
    post = SceneObject("post", "capsule", (0.02, 0.5), np.array([0.5, 0.0, 0.5]))
    arm = ArmDescription("left")
    scene = Scene([arm], [post], {"left": [-0.5, 0.2, 0.0, -2.0, 0.0, 2.2, 0.8]})
    distance = Distance(scene, "left", "post")
    goal = Near("left", [0.5, 0.2, 0.0, -2.0, 0.0, 2.2, 0.8])
    blind = path_problem(scene, [goal], 2, [])
    through = blind.solve(PATIENT)
    assert through.is_feasible
    assert nearest_solids(scene, through.path) < 0.0
    problem = path_problem(scene, [goal], 2, [distance])
    found = too_close(problem.terms, through, problem.each)
    assert found
    assert found[0].unit == "m"
    assert found[0].bodies == ("left", "post")
    around = find_path(problem, settings=PATIENT)
    assert not around.is_feasible or nearest_solids(scene, around.path) > 0.0


def test_intermediate_slices_lie_on_straight_segments():
    scene = Scene([ArmDescription("left")])
    goal = Near("left", scene.start + 0.3)
    found = path_problem(scene, [goal], 3, []).solve(PATIENT)
    slices = between(found)
    assert slices.shape == (3 * (INTERVALS_PER_STEP - 1), 7)
    assert np.allclose(slices[3], 0.5 * (scene.start + found.path[0]))
    assert np.allclose(slices[-4], 0.5 * (found.path[-2] + found.path[-1]))


def test_refined_problem_has_same_solution():
    scene = Scene([ArmDescription("left")])
    problem = path_problem(scene, [Position("left/tool", [0.4, 0.2, 0.4])], 10, [])
    finer = problem.finer()
    assert (finer.slices, finer.period, len(finer.terms)) == (20, 0.3, len(problem.terms))
    rough, fine = problem.solve(PATIENT), finer.solve(PATIENT)
    assert np.abs(fine.path[1::2] - rough.path).max() < 0.05


@pytest.mark.parametrize("tries", [0, 1001])
def test_invalid_number_of_tries_is_refused(tries):
    with pytest.raises(PlanRejected, match="tries"):
        find_path(path_problem(two_arms(), []), tries=tries)
