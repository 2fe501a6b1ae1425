# SPDX-License-Identifier: Apache-2.0
"""Shipped relocation: one arm rotates a box at its end and drags it onto a platform."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.testing import varied_cell

pytestmark = pytest.mark.inline

TASK = Path(__file__).parents[3] / "config" / "tasks" / "relocate_box.yaml"


def yaw(pose):
    """Return the rotation of the long axis of the box about the vertical [rad]."""
    return math.atan2(pose.rotation[1, 0], pose.rotation[0, 0])


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize(("friction", "expected_yaw"), [(1.0, (0.3, 0.6)), (0.0, (-0.05, 0.05))])
def test_rubber_tip_drags_box_and_smooth_tip_slips(friction, expected_yaw):
    """The friction of the tip acts only with its own normal force, that of the table with both."""
    data = TaskFile.from_yaml(TASK).model_dump()
    data["subtasks"] = data["subtasks"][:3]
    data["subtasks"][0]["duration"] = 0.4
    task = TaskFile.from_dict(data)
    config = CellConfig.from_yaml(task.cell).model_dump()
    config["cell"]["placement"] = "inline"
    config["arms"]["arm"]["tool"]["friction"] = friction
    with Cell(CellConfig.from_dict(config)) as cell:
        is_done = TaskRunner(cell, task).run()
        end = cell.objects()["box"]
    assert is_done or not friction
    assert expected_yaw[0] < yaw(end) < expected_yaw[1]


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("seed", range(11))
def test_box_is_rotated_and_dragged_onto_platform(seed):
    task = TaskFile.from_yaml(TASK)
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task)
        assert runner.run(), runner.reason
        end = cell.objects()["box"]
    assert end.position == pytest.approx([0.45, 0.35, 0.574], abs=0.02)
    assert yaw(end) == pytest.approx(math.pi / 2, abs=0.1)


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.timeout(600)
def test_larger_force_let_joint_barrier_drive_tool_away():
    """With 25 and 50 N the box ends closer to the arm, with joint 4 at 0.06 rad from its limit.

    The tool moved up in its search for the box until the timeout.
    """
    data = TaskFile.from_yaml(TASK).model_dump()
    for subtask in data["subtasks"]:
        subtask["force"] = {10.0: 25.0, 25.0: 50.0}.get(subtask["force"], 0.0)
    task = TaskFile.from_dict(data)
    with Cell.from_yaml(task.cell, placement="inline") as cell:
        runner = TaskRunner(cell, task)
        assert runner.run(), runner.reason
        assert not [event for event in runner.events if event.kind == "retry"]
        end = cell.objects()["box"]
    assert end.position == pytest.approx([0.45, 0.35, 0.574], abs=0.02)
