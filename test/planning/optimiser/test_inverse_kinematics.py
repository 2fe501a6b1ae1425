# SPDX-License-Identifier: Apache-2.0
"""Joint configurations for goals, against pinocchio, and errors of unreachable goals."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from optimiser_scenes import one_arm

from multipanda_py.exceptions import PlanRejected, UnknownName
from multipanda_py.planning.optimiser.configuration import inverse_kinematics
from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.goals import Axis, PoseGoal, Position, RelativePose
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.optimiser.term import Near
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio

pytestmark = pytest.mark.inline
PATIENT = SolverSettings(iterations=60, time=30.0)


def two_arms(*objects):
    arms = [
        ArmDescription(name, position_base_in_world=np.array([0.0, y, 0.0]))
        for name, y in (("left", 0.5), ("right", -0.5))
    ]
    return Scene(arms, objects)


def box(mass=1.0):
    return SceneObject("box", "box", (0.1, 0.15, 0.1), np.array([0.5, 0.0, 0.4]), mass=mass)


def reached(scene, x, arm):
    """Return the tool pose of an arm, by pinocchio."""
    model = build_pinocchio(scene.arms[arm], base_in_world=True)
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.array(scene.arm_configuration(x, arm)))
    placed = data.oMf[model.getFrameId(scene.arms[arm].ee_frame)]
    return Pose(placed.translation.copy(), placed.rotation.copy())


def nearest_solids(scene, x):
    kinematics = Kinematics(scene, scene.frame_names).forward_kinematics(x[None])
    return min(d.margin - d.evaluate(kinematics)[0].max() for d in clearances(scene))


def reachable(scene, rng, arm):
    """Return the tool pose of a random collision-free configuration."""
    at = scene.columns[arm]
    while True:
        x = scene.start.copy()
        x[at] = rng.uniform(scene.lower[at] + 0.05, scene.upper[at] - 0.05)
        if nearest_solids(scene, x) > 0.02:
            return reached(scene, x, arm)


@pytest.mark.parametrize("seed", range(6))
def test_reachable_pose_is_reached_within_limits(seed):
    scene = one_arm()
    goal = reachable(scene, np.random.default_rng(seed), "left")
    x = inverse_kinematics(scene, [PoseGoal("left/tool", goal)], settings=PATIENT)
    assert reached(scene, x, "left").distance(goal) < (2e-4, 2e-4)
    assert (x >= scene.lower).all()
    assert (x <= scene.upper).all()
    assert nearest_solids(scene, x) > 0.0095


def test_same_seed_finds_same_configuration():
    scene = one_arm()
    goal = PoseGoal("left/tool", reachable(scene, np.random.default_rng(3), "left"))
    first, second = (inverse_kinematics(scene, [goal], settings=PATIENT) for _ in range(2))
    assert np.array_equal(first, second)


def test_solution_is_near_requested_configuration():
    scene = one_arm()
    here = reached(scene, scene.start, "left")
    goal = PoseGoal("left/tool", here.with_position(here.position + [0.0, 0.0, 0.01]))
    x = inverse_kinematics(scene, [goal], settings=PATIENT)
    assert np.abs(x - scene.start).max() < 0.1
    bent = scene.start + [0.4, 0.0, -0.4, 0.0, 0.0, 0.0, 0.0]
    y = inverse_kinematics(scene, [goal], near=bent, settings=PATIENT)
    assert np.abs(y - bent).max() < np.abs(x - bent).max()


@pytest.mark.parametrize("seed", range(3))
def test_two_arms_reach_goals_without_collision(seed):
    scene = two_arms()
    rng = np.random.default_rng(seed)
    where = {arm: rng.uniform([0.4, 0.1, 0.3], [0.5, 0.3, 0.6]) for arm in scene.arms}
    where["right"] = where["left"] + [0.0, -0.3, 0.0]
    down = pin.rpy.rpyToMatrix(np.pi, 0.0, 0.0)
    goals = [PoseGoal(f"{arm}/tool", Pose(at, down)) for arm, at in where.items()]
    x = inverse_kinematics(scene, goals, settings=PATIENT)
    for arm, at in where.items():
        assert reached(scene, x, arm).distance(Pose(at, down)) < (2e-4, 2e-4)
    assert nearest_solids(scene, x) > 0.0095


def grips():
    """Grasps of two tools on opposite sides of the box, facing each other."""
    return {
        "left": Pose.from_rpy([0.0, 0.16, 0.0], (np.pi / 2, 0.0, 0.0)),
        "right": Pose.from_rpy([0.0, -0.16, 0.0], (-np.pi / 2, 0.0, 0.0)),
    }


def test_two_tools_grasp_object_at_its_pose():
    scene = two_arms(box())
    goals = [PoseGoal(f"{arm}/tool", grip, "box") for arm, grip in grips().items()]
    x = inverse_kinematics(scene, goals, settings=PATIENT)
    there = scene.pose(scene.start, "box")
    assert scene.pose(x, "box").distance(there) < (2e-4, 2e-4)
    for arm, grip in grips().items():
        assert reached(scene, x, arm).distance(there @ grip) < (5e-4, 5e-4)


def test_placed_object_is_grasped_at_its_goal():
    scene = two_arms(box())
    there = Pose.from_rpy([0.5, 0.05, 0.55], (0.0, 0.0, 0.2))
    goals = [PoseGoal(f"{arm}/tool", grip, "box") for arm, grip in grips().items()]
    x = inverse_kinematics(scene, [*goals, PoseGoal("box", there)], settings=PATIENT)
    assert scene.pose(x, "box").distance(there) < (2e-4, 2e-4)
    for arm, grip in grips().items():
        assert reached(scene, x, arm).distance(there @ grip) < (5e-4, 5e-4)


def test_axis_goal_leaves_rotation_about_axis_free():
    scene = one_arm()
    goals = [Position("left/tool", [0.45, 0.2, 0.4]), Axis("left/tool", [0, 0, 1], [0, 0, -1])]
    x = inverse_kinematics(scene, goals, settings=PATIENT)
    tool = reached(scene, x, "left")
    assert np.allclose(tool.position, [0.45, 0.2, 0.4], atol=2e-4)
    assert tool.rotation[2, 2] < -1.0 + 1e-6


def test_unreachable_position_reports_remaining_distance():
    scene = one_arm()
    far = np.array([2.0, 0.0, 0.333])
    with pytest.raises(PlanRejected, match=r"Position\(left/tool world\) .*\d m") as refused:
        inverse_kinematics(scene, [Position("left/tool", far)], tries=5, settings=PATIENT)
    # A stretched arm, 0.316 + 0.384 m and the part beyond its wrist, reaches about 1.1 m.
    off = float(str(refused.value).split("off by ")[1].split()[0])
    drawn = np.random.default_rng(0).uniform(scene.lower, scene.upper, (3000, 7))
    tools = (
        Kinematics(scene, ("left/tool",)).forward_kinematics(drawn).frames["left/tool"].position
    )
    farthest = float(tools[:, 0].max())
    assert 0.8 < off < 2.0 - farthest + 0.01


def test_goal_inside_table_is_refused_with_pair():
    scene = Scene(
        [ArmDescription("left")],
        [SceneObject("table", "box", (0.3, 0.3, 0.2), np.array([0.6, 0.0, 0.2]))],
    )
    goal = Position("left/tool", [0.6, 0.0, 0.2])
    with pytest.raises(PlanRejected, match=r"Distance\(left table\) .*\d m"):
        inverse_kinematics(
            scene, [goal], apart=[Distance(scene, "left", "table")], tries=3, settings=PATIENT
        )


def test_violations_have_one_unit_each():
    scene = one_arm()
    unreachable = Pose.from_rpy([2.0, 0.0, 0.5], (0.0, 2.0, 0.0))
    with pytest.raises(PlanRejected) as refused:
        inverse_kinematics(scene, [PoseGoal("left/tool", unreachable)], tries=2, settings=PATIENT)
    assert " m" in str(refused.value)
    assert "m, rad" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"goals": []}, PlanRejected, "goals: got none"),
        ({"tries": 0}, PlanRejected, "tries: got 0"),
        ({"near": [0.0]}, PlanRejected, "near: got"),
        ({"near": [np.nan] * 7}, PlanRejected, "near: got"),
        ({"goals": [RelativePose("left/tool", "world")]}, PlanRejected, "constrains a velocity"),
        ({"goals": [Position("other/tool", [0, 0, 0])]}, UnknownName, "other/tool"),
        ({"goals": [Near("left", [0.0])]}, PlanRejected, "configuration of left"),
    ],
)
def test_invalid_goal_is_refused(change, error, message):
    given = {"goals": [Position("left/tool", [0.4, 0.0, 0.4])], **change}
    with pytest.raises(error, match=message):
        inverse_kinematics(one_arm(), given.pop("goals"), **given)


def test_pink_reaches_same_goals():
    pink = pytest.importorskip("pink", reason="pin-pink is a cross-check, not installed here")
    qpsolvers = pytest.importorskip("qpsolvers", reason="pin-pink needs it")
    scene = one_arm()
    model = build_pinocchio(scene.arms["left"], base_in_world=True)
    task = pink.tasks.FrameTask(scene.arms["left"].ee_frame, 1.0, 1.0)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        goal = reachable(scene, rng, "left")
        task.set_target(pin.SE3(np.array(goal.rotation), np.array(goal.position)))
        x = inverse_kinematics(scene, [PoseGoal("left/tool", goal)], settings=PATIENT)
        there = pink.Configuration(model, model.createData(), np.array(x))
        assert np.linalg.norm(task.compute_error(there)) < 2e-4
        # From a nearby configuration, pink arrives at the goal by this package's kinematics.
        beside = np.clip(x + rng.uniform(-0.1, 0.1, 7), scene.lower + 0.01, scene.upper - 0.01)
        moved = pink.Configuration(model, model.createData(), beside)
        for _ in range(100):
            velocity = pink.solve_ik(moved, [task], 0.05, solver=qpsolvers.available_solvers[0])
            moved.integrate_inplace(velocity, 0.05)
        assert reached(scene, moved.q, "left").distance(goal) < (1e-4, 1e-4)
