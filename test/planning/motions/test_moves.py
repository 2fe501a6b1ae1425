# SPDX-License-Identifier: Apache-2.0
"""Collision-free motions of a cell, verified with MuJoCo's contacts."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from cell_names import TRAJECTORY

from multipanda_py import Pose
from multipanda_py.exceptions import (
    MotionFailed,
    PlanRejected,
    TargetRejected,
    UnknownName,
)
from multipanda_py.planning.motions.find_motion import MotionRequest, find_move
from multipanda_py.planning.optimiser import Scene
from multipanda_py.robots import ArmDescription, SceneObject

pytestmark = [pytest.mark.sim, pytest.mark.inline]
SHELF = {"shelf": {"shape": "box", "size": [0.1, 0.25, 0.1], "position": [0.45, 0.0, 0.35]}}


@pytest.fixture
def cell(make_cell):
    laws = {TRAJECTORY: {"type": "joint_trajectory"}}
    active = [f"{arm}/{TRAJECTORY}" for arm in ("left", "right")]
    made = make_cell(None, laws, active, objects=SHELF)
    made.step(5)
    return made


def contacts(cell):
    """Return pairs of bodies in contact, without pairs of fingers."""
    model, data = cell.simulation.model, cell.simulation.data
    mujoco.mj_forward(model, data)
    pairs = set()
    for contact in data.contact[: data.ncon]:
        bodies = (
            model.body(model.geom_bodyid[geom]).name for geom in (contact.geom1, contact.geom2)
        )
        pairs.add(tuple(sorted(bodies)))
    return {pair for pair in pairs if not all("finger" in name for name in pair)}


def moved(pose, *by):
    return pose.with_position(pose.position + by)


@pytest.mark.long
def test_two_arms_pass_shelf_without_contact(cell):
    left, right = cell.pose("left"), cell.pose("right")
    low = {
        "left": Pose([0.5, 0.1, 0.25], left.rotation),
        "right": Pose([0.5, -0.1, 0.25], right.rotation),
    }
    over = {"left": moved(left, 0.05, -0.25, 0.1), "right": moved(right, 0.05, -0.2, 0.2)}
    for goals in (low, over):
        plan = cell.plan(goals, velocity_scaling=1.0)
        assert plan.nearest > 0.01
        ends = cell.start_motion(plan)
        began = {arm: cell.state(arm).q for arm in goals}
        while cell.time < ends + 0.2:
            cell.step(5)
            assert not contacts(cell)
        assert cell.is_finished(plan)
        for arm, goal in goals.items():
            distance, angle = cell.pose(arm).distance(goal)
            assert distance < 2e-3
            assert angle < 5e-3
            assert np.abs(cell.state(arm).q - began[arm]).max() > 0.1


@pytest.mark.long
def test_upright_constraint_bounds_tilt_of_tool(cell):
    start = cell.pose("left")
    goal = Pose(start.position + [0.1, -0.1, 0.2], start.rotation @ np.array(
        [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))  # fmt: skip
    plan = cell.plan({"left": goal}, path_constraint="upright", velocity_scaling=1.0)
    ends, tilt = cell.start_motion(plan), 0.0
    up = start.rotation.T @ [0.0, 0.0, 1.0]
    while cell.time < ends:
        cell.step(5)
        tilt = max(tilt, np.arccos(min(1.0, (cell.pose("left").rotation @ up)[2])))
    assert tilt < 0.02
    free = cell.plan({"left": start})
    assert free.duration > plan.duration  # slower by default


def test_joint_goal_through_via_pose_is_reached(cell):
    start = cell.state("right").q
    via_pose = moved(cell.pose("right"), 0.0, 0.0, 0.1)
    goal = start + [0.2, 0.0, 0.0, 0.1, 0.0, 0.0, -0.3]
    plan = cell.plan({"right": goal}, via=[{"right": via_pose}], velocity_scaling=1.0)
    assert plan.moving == ("right",)
    end, nearest = cell.start_motion(plan), (np.inf, np.inf)
    while cell.time < end:
        cell.step(2)
        nearest = min(nearest, cell.pose("right").distance(via_pose))
    assert nearest[0] < 5e-3
    assert nearest[1] < 0.02
    cell.step(500)
    np.testing.assert_allclose(cell.state("right").q, goal, atol=2e-3)


def test_two_arm_motion_starts_in_one_cycle_or_never(cell):
    goals = {arm: moved(cell.pose(arm), 0.0, 0.0, 0.1) for arm in cell.arms}
    plan = cell.plan(goals, velocity_scaling=1.0)
    cell.switch(["right/hold"], strictness="force_auto")
    before = {arm: cell.state(arm).q for arm in cell.arms}
    with pytest.raises(TargetRejected, match=r"^right: .*\bright/hold\b"):
        cell.start_motion(plan)
    cell.step(300)
    for arm, q in before.items():
        np.testing.assert_allclose(cell.state(arm).q, q, atol=1e-4)
    cell.switch([f"right/{TRAJECTORY}"], strictness="force_auto")
    cell.step(5)
    cell.start_motion(plan)
    begun = dict.fromkeys(cell.arms, 0)
    for cycle in range(200):
        cell.step(1)
        for arm in cell.arms:
            if not begun[arm] and np.abs(cell.state(arm).q - plan.starts[arm]).max() > 1e-5:
                begun[arm] = cycle
    assert begun["left"] > 40
    assert abs(begun["left"] - begun["right"]) <= 5


def test_reason_for_interrupted_motion_is_reported(cell):
    plan = cell.plan({"left": moved(cell.pose("left"), 0.0, 0.0, 0.15)}, velocity_scaling=0.5)
    ends = cell.start_motion(plan)
    cell.step(300)
    assert not cell.is_finished(plan)
    cell.hold()
    with pytest.raises(MotionFailed, match=r"^left: .*\bleft/hold\b"):
        cell.wait(lambda: cell.time > ends or cell.is_finished(plan), 5.0)


def test_plan_with_different_start_is_refused(cell):
    plan = cell.plan({"left": moved(cell.pose("left"), 0.0, 0.0, 0.1)}, velocity_scaling=1.0)
    cell.move_to("left", moved(cell.pose("left"), 0.0, 0.1, 0.0), velocity_scaling=1.0)
    with pytest.raises(PlanRejected, match=r"^plan: .*\bleft\b.*\d rad"):
        cell.start_motion(plan)


def test_planning_for_moving_arm_is_refused(cell):
    cell.start_motion(
        cell.plan({"left": moved(cell.pose("left"), 0.0, 0.0, 0.1)}, velocity_scaling=1.0)
    )
    cell.step(300)
    with pytest.raises(PlanRejected, match=rf"^left: .*\bleft/{TRAJECTORY}\b"):
        cell.plan({"left": cell.pose("left")})


def refused(cell):
    here = cell.pose("left")
    yield (
        {"left": moved(here, 2.0, 0.0, 0.0)},
        {},
        PlanRejected,
        r"^goal of left: .*\d m .*\d m$",
    )
    inside = {"left": Pose([0.45, -0.3, 0.35], here.rotation)}
    yield inside, {}, PlanRejected, r"^goal: left and shelf .*0\.000 m"
    yield {}, {}, PlanRejected, "goals: got none"
    yield {"other": here}, {}, UnknownName, "other"
    yield {"left": [0.0] * 6}, {}, PlanRejected, r"left: .*\b7\b"
    yield {"left": here}, {"frame": "moon"}, TargetRejected, "frame.*'moon'"
    yield {"left": here}, {"path_constraint": "flat"}, PlanRejected, "path_constraint: got 'flat'"
    yield {"left": here}, {"velocity_scaling": 0.0}, PlanRejected, "velocity_scaling: got 0.0"
    yield {"left": here}, {"clearance": -1.0}, PlanRejected, "clearance: got -1.0"


def test_infeasible_requests_are_refused_without_motion(cell):
    q = cell.state("left").q
    for goals, options, error, reported in refused(cell):
        with pytest.raises(error, match=reported):
            cell.plan(goals, **options)
    for wrong in ({"arm": "left"}, {"arm": {"left": q}, "goal": q}):
        with pytest.raises(PlanRejected, match="move_to: got"):
            cell.move_to(**wrong)
    with pytest.raises(PlanRejected, match=r"^via: "):
        cell.move_to({"left": q}, via=[cell.pose("left")])
    cell.step(100)
    np.testing.assert_allclose(cell.state("left").q, q, atol=1e-5)


def test_start_in_collision_is_refused():
    arm = ArmDescription("left")
    block = SceneObject("block", "box", (0.05, 0.05, 0.05), np.array([0.3, 0.0, 0.6]))
    request = MotionRequest([{"left": arm.robot.ready}])
    with pytest.raises(PlanRejected, match=r"^start: left\b.*\bblock\b.*\b0\.\d+ m"):
        find_move(Scene([arm], [block]), {}, request)


def test_nan_planning_time_is_refused():
    with pytest.raises(PlanRejected, match="planning_time: got nan"):
        MotionRequest([{"left": np.zeros(7)}], planning_time=float("nan")).check()


CUBE = {"shape": "box", "size": [0.02, 0.02, 0.02], "mass": 0.1}


@pytest.fixture
def cell_with_cube(make_cell):
    """Arm above a table with a cube on it."""
    scene_objects = {
        "table": {"shape": "box", "size": [0.15, 0.2, 0.1], "position": [0.45, 0.0, 0.1]},
        "cube": {**CUBE, "position": [0.45, 0.0, 0.22]},
    }
    near = {"collision_avoidance": {"fixed_objects": "without_gripper"}}
    laws = {TRAJECTORY: {"type": "joint_trajectory", "params": near}}
    made = make_cell({"arm": {}}, laws, [f"arm/{TRAJECTORY}"], objects=scene_objects)
    made.step(5)
    return made


def test_allowed_contact_applies_to_gripper_but_not_arm(cell_with_cube):
    cell = cell_with_cube
    around = cell.pose("arm").with_position(cell.objects()["cube"].position + [0.0, 0.0, 0.005])
    with pytest.raises(PlanRejected, match="arm and cube "):
        cell.plan({"arm": around}, allowed_contacts=["table"])
    plan = cell.plan({"arm": around}, allowed_contacts=["cube", "table"], velocity_scaling=1.0)
    assert plan.duration > 0.0
    cell.set_parameters(f"arm/{TRAJECTORY}", {"collision_avoidance.fixed_objects": "all"})
    for refused in (
        lambda: cell.start_motion(plan),
        lambda: cell.plan({"arm": around}, allowed_contacts=["cube", "table"]),
    ):
        with pytest.raises(PlanRejected, match=r"arm/gripper and table\b.*\d m\b"):
            refused()
    cell.set_parameters(
        f"arm/{TRAJECTORY}", {"collision_avoidance.fixed_objects": "without_gripper"}
    )
    ends = cell.start_motion(plan)
    cell.wait(lambda: cell.time > ends and cell.is_finished(plan), 30.0, "the motion's end")
    inside = around.with_position(around.position - [0.0, 0.0, 0.15])
    with pytest.raises(PlanRejected, match="arm and table "):
        cell.plan({"arm": inside}, allowed_contacts=["cube", "table"])


def test_allowed_contacts_must_be_list_of_objects(cell_with_cube):
    here = cell_with_cube.pose("arm")
    with pytest.raises(PlanRejected, match=r"^allowed_contacts: .*'cube'"):
        cell_with_cube.plan({"arm": here}, allowed_contacts="cube")
    with pytest.raises(UnknownName, match="cubes"):
        cell_with_cube.plan({"arm": here}, allowed_contacts=["cubes"])
