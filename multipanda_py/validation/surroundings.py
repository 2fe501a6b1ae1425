# SPDX-License-Identifier: Apache-2.0
"""What has to stand around real arms for a task, and tools that are the same on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.rigid_hand import with_rigid_hand
from multipanda_py.config.sections import ArmConfig, ObjectConfig
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.validation.task import SIMULATED, Task
from multipanda_py.validation.tasks import TASKS, make_task


def has_real_arms(config: CellConfig, task: Task) -> bool:
    """Return whether an arm that takes part in a task is no simulated one."""
    return any(config.arms[name].backend != SIMULATED for name in task.names(config))


def with_tools_of(plant: CellConfig, twin: CellConfig) -> CellConfig:
    """Return a twin whose arms carry what the real arms of its plant carry.

    Real arms keep their hands and tools in all tasks, and simulated ones without a tool would get
    a rod. Arms are paired in their order; a twin's own tool stays.
    """
    arms = dict(twin.arms)
    for (name, arm), real in zip(twin.arms.items(), plant.arms.values()):
        if real.backend != SIMULATED and arm.tool is None:
            arms[name] = _carrying(arm, with_rigid_hand(real))
    return twin.model_copy(update={"arms": arms})


def _carrying(arm: ArmConfig, rigid: ArmConfig) -> ArmConfig:
    return arm.model_copy(update={"hand": False, "tool": rigid.tool})


def in_task(config: CellConfig, number: int) -> CellConfig:
    """Return a cell with the things of a task around its arms, which keep their tools.

    Raises:
        ValidationRefused: If the task has no things, or cannot be done with these arms.
    """
    if number not in TASKS:
        raise ValidationRefused(f"task: got {number}, allowed {', '.join(map(str, TASKS))}")
    rigid = {name: with_rigid_hand(arm) for name, arm in config.arms.items()}
    task = make_task(number)
    task.scene(config.model_copy(update={"arms": rigid}))
    return config.model_copy(update={"objects": dict(task.things)})


def things_of(tasks: Sequence[Task], plant: CellConfig) -> Mapping[str, ObjectConfig]:
    """Return what has to be there for tasks on real arms, by names of this task alone."""
    found = {}
    for task in tasks:
        if has_real_arms(plant, task):
            task.scene(plant)
            found.update({f"task{task.number}_{k}": thing for k, thing in task.things.items()})
    return found


def wanted(tasks: Sequence[Task], plant: CellConfig) -> Iterator[str]:
    """Say what has to stand where for tasks on real arms, a sentence a thing."""
    for name, thing in things_of(tasks, plant).items():
        number, _, what = name.removeprefix("task").partition("_")
        size = " x ".join(f"{2.0 * half:g}" for half in thing.size)
        place = ", ".join(f"{x:.3f}" for x in thing.position)
        mass = f" and {thing.mass:g} kg" if thing.mass else ", fixed"
        turned = f", turned by {thing.rpy[2]:.2f} rad about z" if abs(thing.rpy[2]) > 5e-3 else ""
        yield (
            f"task {number} wants a {what} of {size} m{mass}, its middle at ({place}) m of the "
            f"world{turned}"
        )
