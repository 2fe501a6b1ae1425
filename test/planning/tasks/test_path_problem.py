# SPDX-License-Identifier: Apache-2.0
"""Paths of subtasks, against pinocchio's kinematics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks.controllet_client import observe
from multipanda_py.cell.tasks.execution import Planner
from multipanda_py.controllets.targets.joint import check_trajectory
from multipanda_py.exceptions import PlanRejected, TargetRejected
from multipanda_py.planning.tasks.task_file import TaskFile
from multipanda_py.planning.trajectory.quintic import evaluate
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

CELL = Path(__file__).parents[3] / "config" / "box_task_sim.yaml"
BOTH = ["left", "right"]


@pytest.mark.sim
@pytest.mark.parametrize("pivots", [False, True])
def test_grippers_stay_on_object_in_every_slice(pivots):
    """Rigid grasp, or contact of the tips alone with minimum rotation."""
    sides = {"object": "box", "arms": BOTH, "side": "+y", "pivots": pivots}
    carry = {
        "name": "carry", "contacts": ["sides"], "force": 20.0,
        "goals": [{"frame": "box", "offset": [0.05, 0.06, 0.12]}],
    }  # fmt: skip
    task = TaskFile.from_dict(
        {"name": "t", "controllet": "augmented", "contacts": {"sides": sides}, "subtasks": [carry]}
    )
    with Cell.from_yaml(CELL, placement="inline") as cell:
        cell.step(1)
        start = observe(cell, BOTH)
        plan = Planner(cell, task).request(task.subtasks[0], "hybrid", start).result()
        arms = cell.descriptions
    box = plan.object_paths["box"]
    moved = box[-1].position - start.object_poses["box"].position
    assert moved == pytest.approx([0.05, 0.06, 0.12], abs=2e-4)
    assert box[-1].rotation == pytest.approx(start.object_poses["box"].rotation, abs=4e-4)
    for arm in BOTH:
        model = build_pinocchio(arms[arm], base_in_world=True)
        data, frame = model.createData(), model.getFrameId(arms[arm].ee_frame)
        grasp = start.object_poses["box"].inverse() @ start.tools[arm]
        angles = []
        for pose, q in zip(box, plan.postures[arm]):
            pin.framesForwardKinematics(model, data, q)
            placed = data.oMf[frame]
            tip = pose.rotation.T @ (placed.translation - pose.position)
            assert tip == pytest.approx(grasp.position, abs=4e-4)
            relative = grasp.rotation.T @ pose.rotation.T @ placed.rotation
            angles.append(np.linalg.norm(pin.log3(relative)))
        assert (0.002 < max(angles) < 0.03) if pivots else max(angles) < 4e-4


@pytest.mark.sim
def test_compliance_was_corrected_within_first_slice():
    """0.05 rad required 30 rad/s^2; the limit is 20 rad/s^2."""
    goals = [{"frame": "left/tool", "offset": [0.0, 0.05, 0.0]}]
    subtask = {"name": "aside", "goals": goals, "duration": 1.0}
    task = TaskFile.from_dict({"name": "t", "controllet": "augmented", "subtasks": [subtask]})
    with simple_cell() as cell:
        cell.step(1)
        start = observe(cell, ["left"])
        plan = Planner(cell, task).request(task.subtasks[0], "optimization", start).result()
        bent = cell.state("left").q + 0.05 * np.array([1, -1, 1, -1, 1, -1, 1])
        state = replace(cell.state("left"), q=bent, dq=np.zeros(7))
        limits, gate = cell.descriptions["left"].limits, cell.config.gate
        with pytest.raises(TargetRejected):
            check_trajectory(plan.points("left", start.postures["left"]), state, limits, gate)
        points = plan.points("left", bent)
        check_trajectory(points, state, limits, gate)
        assert points[-1, 1:8] == pytest.approx(plan.postures["left"][-1], abs=1e-9)


@pytest.mark.sim
def test_path_beyond_joint_torques_was_started():
    """Torques of a force in its worst slice, against pinocchio."""
    sides = {"object": "box", "arms": BOTH, "side": "+y"}
    carry = {
        "name": "carry", "contacts": ["sides"],
        "goals": [{"frame": "box", "offset": [0.0, 0.0, 0.12]}],
    }  # fmt: skip

    def plan(force):
        subtasks = [{**carry, "force": force}]
        data = {"name": "t", "controllet": "augmented", "contacts": {"sides": sides}}
        task = TaskFile.from_dict({**data, "subtasks": subtasks})
        return (
            Planner(cell, task).request(task.subtasks[0], "hybrid", observe(cell, BOTH)).result()
        )

    with Cell.from_yaml(CELL, placement="inline") as cell:
        cell.step(1)
        found, fraction = plan(10.0), 0.0
        for arm, description in cell.descriptions.items():
            model = build_pinocchio(description, base_in_world=True)
            data, frame = model.createData(), model.getFrameId(description.ee_frame)
            for q in found.postures[arm]:
                jacobian = pin.computeFrameJacobian(
                    model, data, q, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
                )
                torque = 10.0 * np.abs(jacobian[1])  # they press along y
                fraction = max(fraction, float((torque / (0.9 * description.limits.torque)).max()))
        plan(0.95 * 10.0 / fraction)
        with pytest.raises(PlanRejected):
            plan(1.05 * 10.0 / fraction)


def maximum_penetration(cell, plan):
    """Return the maximum penetration of bodies in MuJoCo along the path [m]."""
    model, data = cell.simulation.model, cell.simulation.data
    indices = {
        arm: [int(model.joint(name).qposadr[0]) for name in cell.descriptions[arm].joint_names]
        for arm in plan.postures
    }
    rows = {arm: plan.points(arm, plan.start.postures[arm]) for arm in plan.postures}
    deepest = 0.0
    for fraction in np.linspace(0.0, 1.0, 400):
        for arm, at in indices.items():
            begin = np.concatenate([[0.0], plan.start.postures[arm], np.zeros(2 * len(at))])
            points = np.vstack([begin, rows[arm]])
            data.qpos[at] = evaluate(points, np.array([fraction * points[-1, 0]]))[0, 0]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        found = [contact.dist for contact in data.contact[: data.ncon]]
        deepest = max(deepest, -min(found, default=0.0))
    return deepest


def planned(subtask, arms, objects=None, **of_task):
    """Return the plan of one subtask and the maximum penetration along it [m]."""
    data = {"name": "t", "controllet": "augmented", "subtasks": [subtask], **of_task}
    task = TaskFile.from_dict(data)
    with simple_cell(objects=objects or {}) as cell:
        cell.step(1)
        plan = (
            Planner(cell, task)
            .request(task.subtasks[0], "optimization", observe(cell, arms))
            .result()
        )
        return plan, maximum_penetration(cell, plan)


ACROSS = {
    "name": "across",
    "goals": [{"frame": "left/tool", "offset": [0.0, 0.3, 0.0], "rpy": [np.pi, 0.0, 0.0]}],
}


@pytest.mark.sim
def test_path_avoids_obstacle_if_task_has_clearance():
    wall = {"wall": {"shape": "box", "size": [0.1, 0.01, 0.2], "position": [0.4, 0.45, 0.4]}}
    _, through = planned(ACROSS, ["left"], wall)
    plan, around = planned(ACROSS, ["left"], wall, clearance=0.02)
    assert through > 0.01
    assert around == 0.0
    off, angle = plan.goals[0].errors(plan.end)
    assert (off, angle) < (1e-3, 1e-2)


@pytest.mark.sim
def test_idle_arm_is_avoided():
    beside = {
        "name": "beside",
        "goals": [{"frame": "left/tool", "offset": [0.0, -0.8, 0.0]}],
    }
    _, through = planned(beside, ["left"])
    _, around = planned(beside, ["left"], clearance=0.02)
    assert through > 0.01
    assert around == 0.0


@pytest.mark.slow
@pytest.mark.sim
def test_goal_in_collision_needs_allowed_contact():
    block = {"block": {"shape": "box", "size": [0.05, 0.05, 0.05], "position": [0.31, 0.3, 0.35]}}
    down = {"name": "down", "goals": [{"frame": "left/tool", "offset": [0.0, 0.0, -0.08]}]}
    with pytest.raises(PlanRejected, match=r"Distance\(left block\)"):
        planned(down, ["left"], block, clearance=0.02)
    plan, _ = planned({**down, "allowed_contacts": ["block"]}, ["left"], block, clearance=0.02)
    assert plan.goals[0].errors(plan.end)[0] < 1e-3
