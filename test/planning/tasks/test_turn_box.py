# SPDX-License-Identifier: Apache-2.0
"""Shipped four-arm task: a box is set upright, regrasped crosswise and laid down."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.cell.tasks.controllet_client import observe
from multipanda_py.cell.tasks.execution import Planner
from multipanda_py.planning.tasks.sections import proposed_mode
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.testing import varied_cell

pytestmark = pytest.mark.inline

TASK = Path(__file__).parents[3] / "config" / "tasks" / "turn_box.yaml"
ARMS = ("left", "right", "far_left", "far_right")
CORNERS = np.array(list(itertools.product((-0.15, 0.15), (-0.15, 0.15), (-0.4, 0.4))))
TOP = 0.33
"""Height of the platform [m]."""


def tilt(pose):
    """Return the angle of the long axis of the box from upright, about x [rad]."""
    return math.atan2(pose.rotation[2, 1], pose.rotation[2, 2])


def first(task, count):
    """Return a task with its first subtasks only."""
    data = task.model_dump()
    data["subtasks"] = data["subtasks"][:count]
    return TaskFile.from_dict(data)


def tip_in_box(model, frame, q, box):
    """Return the position of a tip in the box frame, by pinocchio (3,) [m]."""
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    return box.rotation.T @ (data.oMf[frame].translation - box.position)


@pytest.mark.long
@pytest.mark.sim
def test_all_paths_are_feasible_for_four_arms():
    """Each path starts at the end of its predecessor; tips stay on the box."""
    task = TaskFile.from_yaml(TASK)
    with Cell.from_yaml(task.cell, placement="inline") as cell:
        cell.step(1)
        observed, planner = observe(cell, ARMS), Planner(cell, task)
        models = {a: build_pinocchio(cell.descriptions[a], base_in_world=True) for a in ARMS}
        frames = {a: models[a].getFrameId(cell.descriptions[a].ee_frame) for a in ARMS}
        for subtask in task.subtasks:
            mode = proposed_mode(subtask)
            if mode == "force":
                continue
            plan = planner.request(subtask, mode, observed).result()
            for number, box in enumerate(plan.object_paths.get("box", ())):
                for point in task.points(subtask, cell.config):
                    q = plan.postures[point.arm][number]
                    tip = tip_in_box(models[point.arm], frames[point.arm], q, box)
                    # A tip keeps its approach distance of 3 mm to the box.
                    assert np.linalg.norm(tip - point.point) < 0.005, subtask.name
                lowest = (CORNERS @ box.rotation.T + box.position)[:, 2].min()
                assert lowest > TOP - 0.002, subtask.name
            observed = plan.end
    assert tilt(observed.object_poses["box"]) == pytest.approx(math.pi / 2, abs=0.01)


@pytest.mark.long
@pytest.mark.sim
def test_four_arms_lift_and_rotate_heavy_box():
    task = first(TaskFile.from_yaml(TASK), 4)
    with varied_cell(task.cell, 0) as cell:
        runner = TaskRunner(cell, task)
        assert runner.run(), runner.reason
        box, estimated = cell.objects()["box"], cell.simulation.contact_force
        grasp_forces = [float(estimated("box", arm)[0]) for arm in ARMS]
        load = sum(float(estimated("box", arm)[2]) for arm in ARMS)
        tips = [(box.inverse() @ pose).position for pose in observe(cell, ARMS).tools.values()]
        assert not estimated("box", "platform").any()
    assert tilt(box) == pytest.approx(-math.pi / 4, abs=0.05)
    assert box.position == pytest.approx([0.0, 0.0, 0.79], abs=0.01)
    assert np.abs(grasp_forces) == pytest.approx(30.0, abs=3.0)  # by MuJoCo's contacts
    assert abs(load) == pytest.approx(4.0 * 9.81, rel=0.1)
    for tip, end in zip(tips, (0.2, -0.2, 0.2, -0.2)):  # no slip
        assert tip[1:] == pytest.approx([0.0, end], abs=0.008)


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("seed", range(11))
def test_box_is_rotated_twice_with_regrasp(seed):
    task = TaskFile.from_yaml(TASK)
    touched = set()
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task)
        start = tilt(cell.objects()["box"])

        def tick():
            estimated = cell.simulation.contact_force
            pairs = [*itertools.combinations(ARMS, 2), *((arm, "platform") for arm in ARMS)]
            touched.update(pair for pair in pairs if estimated(*pair).any())

        assert runner.run(tick), runner.reason
        end = cell.objects()["box"]
    assert not touched  # except the box
    assert tilt(end) - start == pytest.approx(math.pi, abs=0.02)
    assert end.position == pytest.approx([0.0, 0.0, TOP + 0.15], abs=0.015)


@pytest.mark.long
@pytest.mark.sim
def test_four_arm_task_is_bit_identical():
    ends = []
    for _ in range(2):
        task = TaskFile.from_yaml(TASK)
        with varied_cell(task.cell, 1) as cell:
            TaskRunner(cell, task).run()
            box = cell.objects()["box"]
            ends.append([cell.time, *box.position, *box.rotation.flat])
            ends[-1] += [value for arm in ARMS for value in cell.state(arm).q]
    assert ends[0] == ends[1]
