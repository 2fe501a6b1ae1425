# SPDX-License-Identifier: Apache-2.0
"""Joint configurations for tool poses, against MuJoCo's kinematics."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.planning.optimiser.configuration import (
    free_postures,
    sample_phase_end,
    tool_goals,
)
from multipanda_py.planning.optimiser.distance import clearances
from multipanda_py.planning.optimiser.free_space import free_space
from multipanda_py.planning.optimiser.goals import Axis, PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.problem import Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.term import WithinLimits
from multipanda_py.planning.tasks.goals import FLOOR_OBJECT
from multipanda_py.pose import Pose
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline
MARGIN = 0.05


@pytest.fixture(scope="module")
def cell():
    box = {"shape": "box", "size": [0.1, 0.3, 0.05], "position": [0.5, 0.0, 0.5]}
    with simple_cell(objects={"box": box}) as cell:
        yield cell


def problem_of(scene, *more):
    problem = Problem(scene, 1, 1, 1.0).add(WithinLimits(margin=MARGIN))
    for one in (*clearances(scene, (), 0.01), *more):
        problem.add(one)
    return problem


def poses_of(scene, q):
    x = scene.start.copy()
    x[:14] = q
    tools = Kinematics(scene, ["left/tool", "right/tool"]).forward_kinematics(x[None]).frames
    return {
        name.partition("/")[0]: Pose(tool.position[0], tool.rotation[0])
        for name, tool in tools.items()
    }


@pytest.mark.sim
def test_tools_reach_poses_without_contact(cell):
    scene = Scene(describe_arms(cell.config), [*describe_objects(cell.config), FLOOR_OBJECT])
    space = free_space(scene, problem_of(scene).terms)
    rng = np.random.default_rng(5)
    lower, upper = scene.lower[:14] + MARGIN, scene.upper[:14] - MARGIN
    model, data = cell.simulation.model, mujoco.MjData(cell.simulation.model)
    names = [name for arm in cell.arms for name in cell.descriptions[arm].joint_names]
    indices = [int(model.joint(name).qposadr[0]) for name in names]
    reached = 0
    while reached < 8:
        goal = rng.uniform(lower, upper)
        if not space.is_free(goal):
            continue
        expected = poses_of(scene, goal)
        q = free_postures(scene, space, expected, scene.start[:14], MARGIN, rng)
        assert q is not None
        assert (q >= lower - 1e-9).all()
        assert (q <= upper + 1e-9).all()
        data.qpos[indices] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        assert not any(one.dist < 0.0 for one in data.contact[: data.ncon])
        for arm, pose in poses_of(scene, q).items():
            distance, angle = pose.distance(expected[arm])
            assert distance < 1e-5
            assert angle < 1e-5
        reached += 1


def test_unreachable_pose_or_unsupported_goal_yields_none(cell):
    scene = Scene.of(cell.config)
    far = Pose(np.array([3.0, 0.0, 0.5]), np.eye(3))
    problem = problem_of(scene, PoseGoal("left/tool", far))
    space, rng = free_space(scene, problem.terms), np.random.default_rng(0)
    goals = tool_goals(scene, problem.terms)
    assert goals == {"left": far}
    x = scene.start.copy()
    assert sample_phase_end(scene, space, problem.terms, goals, x, x, rng) is None
    up = Axis("right/tool", [0.0, 0.0, 1.0], [0.0, 0.0, 1.0])
    assert tool_goals(scene, problem_of(scene, up).terms) is None
    assert tool_goals(scene, problem_of(scene).terms) is None


def test_arm_without_goal_keeps_configuration(cell):
    scene = Scene.of(cell.config)
    q = scene.start[:14].copy()
    q[7:] += 0.2
    goal = PoseGoal("right/tool", poses_of(scene, q)["right"])
    problem = problem_of(scene, goal)
    space = free_space(scene, problem.terms)
    x = scene.start.copy()
    goals = tool_goals(scene, problem.terms)
    found = sample_phase_end(scene, space, problem.terms, goals, x, x, np.random.default_rng(0))
    assert found[:7] == pytest.approx(x[:7], abs=0.0)
    assert np.abs(found[7:14] - x[7:14]).max() < 1.0  # nearest of the found configurations
