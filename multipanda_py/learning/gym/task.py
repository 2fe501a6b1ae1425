# SPDX-License-Identifier: Apache-2.0
"""Tasks by name: those that come along, and those of other packages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeAlias

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, TaskFailed, UnknownName
from multipanda_py.learning.gym.control import Control
from multipanda_py.learning.gym.spaces import real_numbers
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector


class GymTask(ABC):
    """Say what a scene is made of, and what counts in it; one file each.

    Sections are those of a cell file. What differs from episode to episode is drawn in
    :meth:`begin` from the generator that it is given, and from nothing else, so that a seed is an
    episode.

    Attributes:
        arms: Sections of the arms, by name; actions and observations have them in this order.
        objects: Sections of things, by name.
        goal_size: How many numbers :meth:`begin` returns.
        seconds: After which an episode is cut off.
        touching: Parts of the cell file's ``collisions``: pairs that are meant to touch.
        params: Of the law's features, where the usual ones are in the way.
    """

    arms: ClassVar[Mapping[str, Mapping[str, Any]]]
    objects: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    goal_size: ClassVar[int] = 0
    seconds: ClassVar[float] = 10.0
    touching: ClassVar[tuple[str, ...]] = ()
    params: ClassVar[Mapping[str, Any]] = {}

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Put things where the episode begins, and return its goal, (goal_size,)."""
        return np.zeros(0)

    @abstractmethod
    def reward(self, scene: TaskScene) -> float:
        """Return how much of the task is done, 0 to 1; smooth enough to be learned from."""

    @abstractmethod
    def is_done(self, scene: TaskScene) -> bool:
        """Return whether the task is done: the episode ends."""

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return by arm where its tool is to be in the world, and how far its hand open, 0 to 1.

        For demonstrations, and to know that a task can be done; not every task has one.

        Args:
            scene: As it is.
            time: Since the episode's beginning [s].

        Raises:
            NotImplementedError: If the task has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no expert")


def closeness(distance: float, scale: float) -> float:
    r"""Return 1 where something is, and less the further it is away.

    .. math:: 1 - \tanh(d / s)
    """
    return float(1.0 - np.tanh(distance / scale))


LAW = "gym"
"""Name of the instance that every arm has for an environment."""
Residual: TypeAlias = "str | Path | Mapping[str, str | Path] | None"
"""A file of ``multipanda residual train`` for all arms, or files by arm."""
STALLED = 1.0
"""Silence of a policy after which arms of a cell in real time hold [s]."""


def lockstep_cell(
    task: GymTask,
    control: type[Control],
    features: Sequence[str] | None,
    residual: Residual = None,
) -> CellConfig:
    """Return the cell of a task whose loop is stepped by hand.

    Args:
        task: With the scene.
        control: With the law.
        features: Of the law, or None for its own.
        residual: File of what simulated arms do not show of themselves, or files by arm.

    Raises:
        ConfigurationError: If the task's sections are faulty, with every fault.
    """
    arms = _with_residual({name: dict(arm) for name, arm in task.arms.items()}, residual)
    return CellConfig.from_dict(
        {
            "cell": {"name": "gym", "placement": "inline"},
            "arms": arms,
            "objects": {name: dict(section) for name, section in task.objects.items()},
            "collisions": {"touching": list(task.touching)},
            "controllets": {LAW: _law(task, control, features)},
            "active": [f"{arm}/{LAW}" for arm in arms],
        },
        type(task).__name__,
    )


def cell_of_file(
    path: str | Path,
    task: GymTask,
    control: type[Control],
    features: Sequence[str] | None,
    residual: Residual = None,
) -> CellConfig:
    """Return a user's cell with the law of a control added; nothing is active at its start.

    Args as :func:`lockstep_cell`.

    Raises:
        ConfigurationError: If the file is faulty, or its arms are not the task's.
    """
    config = CellConfig.from_yaml(path)
    if missing := [name for name in task.arms if name not in config.arms]:
        raise ConfigurationError(
            f"{path}: arms: got {', '.join(config.arms)}; {type(task).__name__} needs "
            f"{', '.join(missing)} too"
        )
    data = config.model_dump()
    data["arms"] = _with_residual(data["arms"], residual)
    data["controllets"] = {
        **data["controllets"],
        LAW: {**_law(task, control, features), "target_timeout": STALLED},
    }
    data["active"] = []
    return CellConfig.from_dict(data, str(path))


def _with_residual(arms: dict[str, Any], residual: Residual) -> dict[str, Any]:
    """Return sections of arms with files of learned residuals.

    Raises:
        UnknownName: If there is no such arm.
    """
    files = residual if isinstance(residual, Mapping) else dict.fromkeys(arms, residual)
    for name, file in files.items():
        if name not in arms:
            raise UnknownName("arm", name, tuple(arms))
        if file:
            shown = {**arms[name].get("residual", {}), "state": str(Path(file).absolute())}
            arms = {**arms, name: {**arms[name], "residual": shown}}
    return arms


def _law(
    task: GymTask, control: type[Control], features: Sequence[str] | None
) -> Mapping[str, Any]:
    params = {**control.params, **task.params}
    if features is None:
        return {"type": control.law, "params": params}
    for name in set(task.params) - set(features):  # parameters of what is left out
        del params[name]
    return {"type": control.law, "params": params, "features": list(features)}


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


BUILT_IN = {
    "reach": "multipanda_py.learning.gym.tasks.reach:Reach",
    "reach_two": "multipanda_py.learning.gym.tasks.reach:ReachTwo",
    "push": "multipanda_py.learning.gym.tasks.push:PushPuck",
    "pick_and_place": "multipanda_py.learning.gym.tasks.pick_and_place:PickAndPlace",
    "lift_box": "multipanda_py.learning.gym.tasks.lift_box:LiftBox",
    "hand_over": "multipanda_py.learning.gym.tasks.hand_over:HandOver",
    "stack_bricks": "multipanda_py.learning.gym.tasks.stack_bricks:StackBricks",
    "peg_insertion": "multipanda_py.learning.gym.tasks.peg_insertion:PegInsertion",
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
