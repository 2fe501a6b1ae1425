# SPDX-License-Identifier: Apache-2.0
"""Tasks of environments: base class, lookup by name, their cells and checks of their results."""

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
    """Base class of a task: scene, goal, reward, and condition of success.

    Subclasses set the attributes. :meth:`reset` has to draw all random values of an episode from
    its generator.

    Attributes:
        arms: Sections of the arms by name, as in a cell file. Actions and observations use this
            order.
        objects: Sections of the objects by name, as in a cell file.
        goal_size: Number of components of the goal.
        time_limit: Time limit of an episode [s].
        allowed_contacts: Pairs of bodies that may touch, as in the section ``collisions``.
        params: Parameters of controllet features, by feature; the others have their defaults.
    """

    arms: ClassVar[Mapping[str, Mapping[str, Any]]]
    objects: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    goal_size: ClassVar[int] = 0
    time_limit: ClassVar[float] = 10.0
    allowed_contacts: ClassVar[tuple[str, ...]] = ()
    params: ClassVar[Mapping[str, Any]] = {}

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place objects at the start of an episode and return its goal, (goal_size,)."""
        return np.zeros(0)

    @abstractmethod
    def reward(self, scene: TaskScene) -> float:
        """Return the progress of the task from 0 to 1, a smooth function of the scene."""

    @abstractmethod
    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the task is done, which ends the episode."""

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool pose in the world and gripper opening (0 to 1) that solve the task, by arm.

        Args:
            scene: Current scene.
            time: Time since the start of the episode [s].

        Raises:
            NotImplementedError: If the task has no such scripted expert.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no scripted expert. Use another task."
        )


def closeness(distance: float, scale: float) -> float:
    r"""Return a smooth measure of proximity, 1 at distance 0 and decreasing with distance.

    .. math:: 1 - \tanh(d / s)

    Args:
        distance: Distance d [m].
        scale: Length scale s [m].
    """
    return float(1.0 - np.tanh(distance / scale))


CONTROLLET_NAME = "gym"
"""Name of the controllet entry of an environment. Its instances are ``<arm>/gym``."""
Residual: TypeAlias = "str | Path | Mapping[str, str | Path] | None"
"""File of ``multipanda residual train`` for all arms, or files by arm."""
ACTION_TIMEOUT = 1.0
"""Time without actions after which real-time arms hold [s]."""


def lockstep_cell(
    task: GymTask,
    control: type[Control],
    features: Sequence[str] | None,
    residual: Residual = None,
) -> CellConfig:
    """Return the configuration of a cell in lockstep with the scene of a task and one controllet.

    Args:
        task: Task with the scene.
        control: Control, which determines the type of the controllet.
        features: Features of the controllet, or None for its defaults.
        residual: File of the learned difference between real and simulated arms, or files by arm.
            Simulated arms add it to their dynamics.

    Raises:
        ConfigurationError: If sections of the task are invalid. The message names all errors.
    """
    arms = _add_residual_files({name: dict(arm) for name, arm in task.arms.items()}, residual)
    return CellConfig.from_dict(
        {
            "cell": {"name": "gym", "placement": "inline"},
            "arms": arms,
            "objects": {name: dict(section) for name, section in task.objects.items()},
            "collisions": {"allowed_contacts": list(task.allowed_contacts)},
            "controllets": {CONTROLLET_NAME: _controllet_section(task, control, features)},
            "active": [f"{arm}/{CONTROLLET_NAME}" for arm in arms],
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
    """Return the configuration in a cell file, with an added controllet for the actions.

    No controllet is active at the start, so the arms hold until ``reset``.

    Args:
        path: Path of the cell file.
        task: Task of the environment.
        control: Control, which determines the type of the controllet.
        features: Features of the controllet, or None for its defaults.
        residual: File of the learned difference between real and simulated arms, or files by arm.
            Simulated arms add it to their dynamics.

    Raises:
        ConfigurationError: If the file is invalid, or lacks arms of the task.
    """
    config = CellConfig.from_yaml(path)
    if missing := [name for name in task.arms if name not in config.arms]:
        raise ConfigurationError(
            f"{path}: arms: got {', '.join(config.arms)}, but {type(task).__name__} also needs "
            f"{', '.join(missing)}. Add them."
        )
    data = config.model_dump()
    data["arms"] = _add_residual_files(data["arms"], residual)
    data["controllets"] = {
        **data["controllets"],
        CONTROLLET_NAME: {
            **_controllet_section(task, control, features),
            "target_timeout": ACTION_TIMEOUT,
        },
    }
    data["active"] = []
    return CellConfig.from_dict(data, str(path))


def _add_residual_files(arms: dict[str, Any], residual: Residual) -> dict[str, Any]:
    files = residual if isinstance(residual, Mapping) else dict.fromkeys(arms, residual)
    for name, file in files.items():
        if name not in arms:
            raise UnknownName("arm", name, tuple(arms))
        if file:
            shown = {**arms[name].get("residual", {}), "state": str(Path(file).absolute())}
            arms = {**arms, name: {**arms[name], "residual": shown}}
    return arms


def _controllet_section(
    task: GymTask, control: type[Control], features: Sequence[str] | None
) -> Mapping[str, Any]:
    params = {**control.params, **task.params}
    if features is None:
        return {"type": control.controllet, "params": params}
    # Remove parameters of features that are not used, because the controllet would reject them.
    for name in set(task.params) - set(features):
        del params[name]
    return {"type": control.controllet, "params": params, "features": list(features)}


def check_task_attributes(task: GymTask) -> None:
    """Check the types of the attributes that a task defines, but not the contents of sections.

    Raises:
        ConfigurationError: If an attribute has a wrong type.
    """
    name, goal, seconds = type(task).__name__, task.goal_size, task.time_limit
    for attribute in ("arms", "objects", "params"):
        value = getattr(task, attribute, None)
        if not isinstance(value, Mapping) or (attribute == "arms" and not value):
            raise ConfigurationError(
                f"{name}.{attribute}: got {value!r:.60}, allowed sections by name"
            )
    if type(goal) is not int or goal < 0:
        raise ConfigurationError(
            f"{name}.goal_size: got {goal!r:.60}, allowed whole numbers of 0 or more"
        )
    if not _is_number(seconds) or seconds <= 0.0:
        raise ConfigurationError(f"{name}.time_limit: got {seconds!r:.60}, allowed more than 0 s")


def goal_of(task: GymTask, value: Any) -> Vector:
    """Check the goal returned by ``reset`` of a task, and convert it to an array, (goal_size,).

    Raises:
        TaskFailed: If the goal has another shape or is not finite.
    """
    allowed = f"allowed {task.goal_size} finite numbers (goal_size)"
    try:
        goal = real_numbers(value)
    except TypeError:
        raise _failed(task, f"reset: got {value!r:.60}, {allowed}") from None
    if goal.shape != (task.goal_size,) or not np.isfinite(goal).all():
        raise _failed(task, f"reset: got {goal.tolist()!s:.60}, {allowed}")
    return goal


def reward_of(task: GymTask, value: Any) -> float:
    """Check the reward that a task has returned, and convert it to a float.

    Raises:
        TaskFailed: If the reward is not a finite number.
    """
    if not _is_number(value):
        raise _failed(task, f"reward: got {value!r:.60}, allowed a finite number")
    return float(value)


def is_success(task: GymTask, value: Any) -> bool:
    """Check the value that ``is_success`` of a task has returned, and convert it to a bool.

    Raises:
        TaskFailed: If the value is neither True nor False.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise _failed(task, f"is_success: got {value!r:.60}, allowed True or False")
    return bool(value)


def _is_number(value: Any) -> bool:
    try:
        number = real_numbers(value)
    except TypeError:
        return False
    return number.ndim == 0 and math.isfinite(float(number))


def _failed(task: GymTask, description: str) -> TaskFailed:
    return TaskFailed(f"{type(task).__name__}.{description}")


BUILT_IN = {
    "reach": "multipanda_py.learning.gym.tool_tasks:Reach",
    "reach_two": "multipanda_py.learning.gym.tool_tasks:ReachTwo",
    "push": "multipanda_py.learning.gym.tool_tasks:PushPuck",
    "pick_and_place": "multipanda_py.learning.gym.grasping_tasks:PickAndPlace",
    "lift_box": "multipanda_py.learning.gym.grasping_tasks:LiftBox",
    "hand_over": "multipanda_py.learning.gym.grasping_tasks:HandOver",
    "stack_bricks": "multipanda_py.learning.gym.grasping_tasks:StackBricks",
    "peg_insertion": "multipanda_py.learning.gym.tool_tasks:PegInsertion",
}
"""Built-in tasks by name, as ``module:class``, imported on first use."""
ENTRY_POINT_GROUP = "multipanda_py.gym_tasks"
"""Entry point group for tasks of other packages."""


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks."""
    return (*BUILT_IN, *sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP)))


def task_named(name: str) -> GymTask:
    """Return a new task object for the name of a task.

    Raises:
        UnknownName: If no task has this name.
    """
    if name in BUILT_IN:
        return resolve_name(BUILT_IN[name])()  # type: ignore[no-any-return]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            return point.load()()  # type: ignore[no-any-return]
    raise UnknownName("task", name, task_names())
