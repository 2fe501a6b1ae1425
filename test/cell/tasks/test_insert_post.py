# SPDX-License-Identifier: Apache-2.0
"""Shipped insertion: a post is raised about an edge and lowered into a well."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.testing import varied_cell

pytestmark = pytest.mark.inline

TASK = Path(__file__).parents[3] / "config" / "tasks" / "insert_post.yaml"
EDGE = np.array([0.1, 0.0, -0.4])
"""Edge of rotation in the frame of the post [m]."""


def tilt(pose):
    """Return the angle between the post and the vertical [rad]."""
    return math.acos(min(1.0, float(pose.rotation[2, 2])))


@pytest.mark.long
@pytest.mark.sim
def test_post_is_raised_about_edge_on_platform():
    data = TaskFile.from_yaml(TASK).model_dump()
    data["subtasks"] = data["subtasks"][:3]
    task = TaskFile.from_dict(data)
    with varied_cell(task.cell, 0) as cell:
        runner = TaskRunner(cell, task)
        start = None
        runner.start()
        while runner.is_going:
            runner.step()
            cell.step(10)
            start = start or cell.objects()["post"]
        assert runner.state == "done", runner.reason
        end = cell.objects()["post"]
    assert tilt(start) == pytest.approx(math.pi / 2, abs=0.01)
    assert tilt(end) == pytest.approx(math.pi / 3, abs=0.1)
    moved = (end.position + end.rotation @ EDGE) - (start.position + start.rotation @ EDGE)
    assert np.abs(moved).max() < 0.03


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("seed", range(11))
def test_post_is_inserted_into_matching_well(seed):
    task = TaskFile.from_yaml(TASK)
    with varied_cell(task.cell, seed) as cell:
        runner = TaskRunner(cell, task)
        assert runner.run(), runner.reason
        end = cell.objects()["post"]
    assert end.position == pytest.approx([-0.5, 0.0, 0.4], abs=0.015)  # on the floor
    assert tilt(end) < 0.01
