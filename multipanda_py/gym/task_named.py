# SPDX-License-Identifier: Apache-2.0
"""Tasks by name: those that come along, and those of other packages."""

from __future__ import annotations

from importlib.metadata import entry_points
from pkgutil import resolve_name

from multipanda_py.exceptions import UnknownName
from multipanda_py.gym.task import GymTask

BUILT_IN = {
    "reach": "multipanda_py.gym.tasks.reach:Reach",
    "reach_two": "multipanda_py.gym.tasks.reach:ReachTwo",
    "push": "multipanda_py.gym.tasks.push:PushPuck",
    "pick_and_place": "multipanda_py.gym.tasks.pick_and_place:PickAndPlace",
    "lift_box": "multipanda_py.gym.tasks.lift_box:LiftBox",
    "hand_over": "multipanda_py.gym.tasks.hand_over:HandOver",
    "stack_bricks": "multipanda_py.gym.tasks.stack_bricks:StackBricks",
    "peg_insertion": "multipanda_py.gym.tasks.peg_insertion:PegInsertion",
}
"""Built-in tasks by name, as ``module:class``; imported on first use."""
GROUP = "multipanda_py.gym_tasks"
"""Group of entry points in which other packages name their tasks."""


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks there are."""
    return (*BUILT_IN, *sorted(point.name for point in entry_points(group=GROUP)))


def task_named(name: str) -> GymTask:
    """Return a task of a name.

    Raises:
        UnknownName: If there is none.
    """
    if name in BUILT_IN:
        return resolve_name(BUILT_IN[name])()  # type: ignore[no-any-return]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()()  # type: ignore[no-any-return]
    raise UnknownName("task", name, task_names())
