# SPDX-License-Identifier: Apache-2.0
"""Tasks by name: those that come along, and those of other packages."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from multipanda_py.exceptions import UnknownName
from multipanda_py.gym.task import GymTask

BUILT_IN = {
    "reach": "Reach",
    "reach_two": "ReachTwo",
    "push": "PushPuck",
    "pick_and_place": "PickAndPlace",
    "lift_box": "LiftBox",
    "hand_over": "HandOver",
    "stack_bricks": "StackBricks",
    "peg_insertion": "PegInsertion",
}
"""Classes by name; each in a file of that name, ``reach_two`` beside ``reach``."""
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
        file = "reach" if name == "reach_two" else name
        module = import_module(f"multipanda_py.gym.tasks.{file}")
        return getattr(module, BUILT_IN[name])()  # type: ignore[no-any-return]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()()  # type: ignore[no-any-return]
    raise UnknownName("task", name, task_names())
