# SPDX-License-Identifier: Apache-2.0
"""Refusal of infeasible goals before any search; feasible goals pass."""

from __future__ import annotations

import time

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py import Pose
from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.find_motion import LIMIT_MARGIN, check_feasible, find_move
from multipanda_py.planning.motions.motion_request import MotionRequest
from multipanda_py.planning.motions.path_constraints import AttachedObject, required_distances
from multipanda_py.planning.optimiser import Scene
from multipanda_py.robots import ArmDescription, SceneObject

DOWN = Pose.from_rpy(np.zeros(3), [np.pi, 0.0, 0.0])
TABLE = SceneObject("table", "box", (0.2, 0.2, 0.1), np.array([0.5, 0.0, 0.1]))


def two_arms(*scene_objects):
    half_turn = np.diag([-1.0, -1.0, 1.0])
    arms = [
        ArmDescription("left"),
        ArmDescription("right", position_base_in_world=np.array([1.2, 0.0, 0.0]),
                       rotation_base_in_world=half_turn),
    ]  # fmt: skip
    return Scene(arms, scene_objects)


def check(scene, request, grips=()):
    attached = {one.arm: one.object_name for one in grips}
    distances = required_distances(scene, attached, request)
    check_feasible(scene, request, grips, distances, LIMIT_MARGIN)


def refusals(scene, arm):
    """Return a function that gives the reason for refusing a goal, or an empty text."""
    distances = required_distances(scene, {}, MotionRequest([{arm: DOWN}], clearance=0.0))

    def reported(place):
        try:
            check_feasible(scene, MotionRequest([{arm: place}]), (), distances, LIMIT_MARGIN)
        except PlanRejected as error:
            return str(error)
        return ""

    return reported


def at(*position):
    return DOWN.with_position(np.array(position))


READY = ArmDescription("left").robot.ready
IMPOSSIBLE = {
    r"^goal of left: .* 3\b.*\b1\.09 m": {"left": at(3.0, 0.0, 0.5)},
    r"^goal: left and table .*0\.000 m": {"left": at(0.5, 0.0, 0.1)},
    "^goal: left and right ": {arm: at(0.5, 0.0, 0.6) for arm in ("left", "right")},
    r"^goal of left: joint 1: .*9\.0000 rad.*\[-2\.7237, 2\.7237\]": {
        "left": READY + [9.0, 0, 0, 0, 0, 0, 0]
    },
    r"^goal: .*\bleft\b.* 0\.00\d m": {"left": [0.0, -1.7, 0.0, -3.02, 0.0, 0.58, 0.0]},
}


@pytest.mark.parametrize("reported", IMPOSSIBLE)
def test_infeasible_goals_were_searched_for(reported):
    places = {arm: one if isinstance(one, Pose) else np.array(one, dtype=float)
              for arm, one in IMPOSSIBLE[reported].items()}  # fmt: skip
    scene, began = two_arms(TABLE), time.thread_time()
    with pytest.raises(PlanRejected, match=reported):
        find_move(scene, {}, MotionRequest([places]))
    assert time.thread_time() - began < 0.5


def test_grasped_object_in_collision_is_refused():
    rod = SceneObject("rod", "capsule", (0.01, 0.15), np.array([-0.5, 0.5, 0.4]), mass=0.1)
    scene = two_arms(TABLE, rod)
    grip = AttachedObject("left", "rod", Pose(np.zeros(3), np.eye(3)))
    above = MotionRequest([{"left": at(0.5, 0.0, 0.33)}])
    check(scene, above)
    with pytest.raises(PlanRejected, match=r"^goal: rod and table "):
        check(scene, above, [grip])


def test_infeasible_via_point_is_named():
    with pytest.raises(PlanRejected, match=r"^via, .*\b1 of left: "):
        check(
            two_arms(), MotionRequest([{"left": at(3.0, 0.0, 0.5)}, {"left": at(0.5, 0.0, 0.5)}])
        )


def test_feasible_tool_pose_is_not_refused():
    scene, rng = two_arms(TABLE), np.random.default_rng(2)
    arm, model = scene.arms["left"], scene.model("left")
    data, frame = model.createData(), model.getFrameId(arm.ee_frame)
    bounds = scene.lower[:7] + 0.03, scene.upper[:7] - 0.03
    reported = refusals(scene, "left")
    free = 0
    for _ in range(40):
        q = rng.uniform(*bounds)
        pin.framesForwardKinematics(model, data, q)
        tool = Pose(data.oMf[frame].translation.copy(), data.oMf[frame].rotation.copy())
        if not reported(q):
            free += 1
            assert not reported(tool)
    assert free > 3


def test_configurations_in_contact_with_table_are_refused(make_cell):
    cell = make_cell({"arm": {}}, objects={"table": {
        "shape": "box", "size": [0.2, 0.2, 0.1], "position": [0.5, 0.0, 0.1]}})  # fmt: skip
    scene, rng = Scene.of(cell.config), np.random.default_rng(5)
    model, data = cell.simulation.model, cell.simulation.data
    places = [int(model.joint(name).qposadr[0]) for name in cell.descriptions["arm"].joint_names]
    table, reported = model.body("table").id, refusals(scene, "arm")
    observed = 0
    for _ in range(40):
        q = rng.uniform(scene.lower[:7] + 0.03, scene.upper[:7] - 0.03)
        data.qpos[places] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        depths = [
            -contact.dist
            for contact in data.contact[: data.ncon]
            if table in (model.geom_bodyid[contact.geom1], model.geom_bodyid[contact.geom2])
        ]
        if max(depths, default=0.0) > 0.01:
            assert "arm and table" in reported(q) or "parts of arm" in reported(q)
            observed += 1
    assert observed > 3
