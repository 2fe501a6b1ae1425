# SPDX-License-Identifier: Apache-2.0
"""The five validation tasks by number."""

from __future__ import annotations

from collections.abc import Mapping

from multipanda_py.exceptions import ValidationRefused
from multipanda_py.validation.free_tasks import JointSwing, ToolSwing
from multipanda_py.validation.lifting_task import BoxLift
from multipanda_py.validation.pressing_tasks import ForceCircle, ForceSine
from multipanda_py.validation.task import Task

TASKS: Mapping[int, type[Task]] = {
    kind.number: kind for kind in (JointSwing, ToolSwing, ForceSine, ForceCircle, BoxLift)
}
"""Those of multipanda_ros2, section V-B."""


def make_task(number: int, law: str = "", seconds: float = 10.0) -> Task:
    """Return a task by its number.

    Raises:
        ValidationRefused: If there is no such task, law or length.
    """
    if number not in TASKS:
        raise ValidationRefused(f"task: got {number}, allowed {', '.join(map(str, TASKS))}")
    return TASKS[number](law, seconds)
