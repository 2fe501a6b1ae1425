# SPDX-License-Identifier: Apache-2.0
"""What a task says, looked at before anybody learns from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError, TaskFailed
from multipanda_py.gym.real_numbers import real_numbers
from multipanda_py.gym.task import GymTask
from multipanda_py.state import Vector


def refuse_mistaken(task: GymTask) -> None:
    """Refuse a task whose attributes are of other kinds than they are to be.

    Raises:
        ConfigurationError: With the attribute; what is in the sections is seen with the cell.
    """
    name, goal, seconds = type(task).__name__, task.goal_size, task.seconds
    for what in ("arms", "objects", "params"):
        given = getattr(task, what, None)
        if not isinstance(given, Mapping) or (what == "arms" and not given):
            raise ConfigurationError(f"{name}.{what}: got {given!r:.60}, allowed sections by name")
    if type(goal) is not int or goal < 0:
        raise ConfigurationError(f"{name}.goal_size: got {goal!r:.60}, allowed 0, 1, 2 ...")
    if not _is_number(seconds) or seconds <= 0.0:
        raise ConfigurationError(f"{name}.seconds: got {seconds!r:.60}, allowed above 0 s")


def goal_of(task: GymTask, given: Any) -> Vector:
    """Return the goal that a task has drawn, (goal_size,).

    Raises:
        TaskFailed: If it is none.
    """
    allowed = f"allowed {task.goal_size} finite numbers (goal_size)"
    try:
        goal = real_numbers(given)
    except TypeError:
        raise _failed(task, f"begin: got {given!r:.60}, {allowed}") from None
    if goal.shape != (task.goal_size,) or not np.isfinite(goal).all():
        raise _failed(task, f"begin: got {goal.tolist()!s:.60}, {allowed}")
    return goal


def reward_of(task: GymTask, given: Any) -> float:
    """Return a reward.

    Raises:
        TaskFailed: If it is no finite number.
    """
    if not _is_number(given):
        raise _failed(task, f"reward: got {given!r:.60}, allowed a finite number")
    return float(given)


def is_done(task: GymTask, given: Any) -> bool:
    """Return whether a task is done.

    Raises:
        TaskFailed: If what it says is neither True nor False.
    """
    if not isinstance(given, (bool, np.bool_)):
        raise _failed(task, f"is_done: got {given!r:.60}, allowed True or False")
    return bool(given)


def _is_number(given: Any) -> bool:
    try:
        number = real_numbers(given)
    except TypeError:
        return False
    return number.ndim == 0 and math.isfinite(float(number))


def _failed(task: GymTask, what: str) -> TaskFailed:
    return TaskFailed(f"{type(task).__name__}.{what}")
