# SPDX-License-Identifier: Apache-2.0
"""Shipped polishing: requested force on the plate along the stroke."""

from __future__ import annotations

import numpy as np
import pytest
from repository import CONFIG

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.exceptions import ConfigurationError

pytestmark = pytest.mark.inline

FORCE = 15.0


def polish():
    return TaskFile.from_yaml(CONFIG / "tasks" / "polish.yaml")


@pytest.mark.long
@pytest.mark.sim
def test_stroke_in_mode_force_keeps_force_and_line():
    task = polish()
    forces, tips = [], []
    with Cell.from_yaml(task.cell, placement="inline") as cell:
        runner = TaskRunner(cell, task)
        runner.start()
        while runner.is_going and runner.subtask != "aside":
            runner.step()
            cell.step(10)
            if runner.subtask == "stroke":
                forces.append(cell.simulation.contact_force("arm", "plate")[2])
                tips.append(cell.pose("arm").position)
        assert runner.is_going, runner.reason
        runner.abort()
        assert set(cell.active) == {"arm/hold"}
    deviation = np.array(forces) - FORCE
    assert np.sqrt(np.square(deviation).mean()) < 0.5
    assert np.abs(deviation).max() < 2.0
    assert tips[0][1] == pytest.approx(-0.06, abs=0.01)
    assert tips[-1][1] == pytest.approx(0.06, abs=0.011)
    assert np.abs(np.array(tips)[:, 0] - 0.5).max() < 0.008
    assert not [event for event in runner.events if event.kind in ("retry", "replanned")]


def test_pressing_tool_is_allowed_only_in_mode_force():
    data = polish().model_dump()
    data["subtasks"][2]["mode"] = "hybrid"
    with pytest.raises(ConfigurationError, match="arm/tool"):
        TaskFile.from_dict(data)
