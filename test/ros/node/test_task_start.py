# SPDX-License-Identifier: Apache-2.0
"""Start of a task while the check of a cancelled one still runs."""

from __future__ import annotations

import pytest
import yaml
from held_box import AUGMENTED, BOTH, TABLE, arms_at_box

from multipanda_py.exceptions import TaskFailed
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.tasks import TaskServices
from multipanda_py.ros.topics.targets import Targets

pytestmark = pytest.mark.inline

BOX = {"shape": "box", "size": [0.06, 0.095, 0.1], "position": [0.5, 0, 0.4], "mass": 0.8}
NEAR = {"name": "near", "contacts": ["sides"], "approach_distance": 0.03, "duration": 0.6}
SIDES = {"sides": {"object": "box", "arms": list(BOTH), "side": "+y"}}


@pytest.fixture
def tasks(ros, make_cell):
    """Tasks of an inline cell, and the cell."""
    cell = make_cell(arms_at_box(), AUGMENTED, objects={"table": TABLE, "box": BOX})
    node = GuardedNode("tasks_tested")
    clock = NodeClock(node.get_clock())
    services = TaskServices(node, cell, Targets(node, cell, clock, 1.0))
    yield services, cell
    services.node.destroy_node()
    node.destroy_node()


def ended(work, cell):
    """Return the result of work that advances with every cycle of a cell."""
    try:
        while True:
            next(work)
            cell.step(1)
    except StopIteration as end:
        return end.value


def test_start_after_cancelled_check_was_rejected(tasks, tmp_path):
    services, cell = tasks
    path = tmp_path / "task.yaml"
    task = {"name": "short", "controllet": "augmented", "contacts": SIDES, "subtasks": [NEAR]}
    path.write_text(yaml.safe_dump(task))
    first = services.start_task(str(path))
    next(first)
    with pytest.raises(TaskFailed, match="starting"):
        next(services.start_task(str(path)))  # the first one is not cancelled
    assert ended(services.end(), cell).startswith("not started")
    second = services.start_task(str(path))
    next(second)
    with pytest.raises(TaskFailed):
        ended(first, cell)
    assert ended(second, cell).is_going
    services.close()
