# SPDX-License-Identifier: Apache-2.0
"""Task file: a YAML file with the subtasks, contacts and goals of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_objects
from multipanda_py.config.parameter_file import read
from multipanda_py.config.section import Name, Section, messages
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.planning.tasks.sections import WORLD, Contact, Goal, Subtask, proposed_mode
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX, ContactPoint, contact_points

CONTROLLET_TYPE = "optimization_augmented"
"""Type of the controllet that executes tasks."""


def task_faults(contacts: dict[str, Contact], subtasks: list[Subtask]) -> Iterator[str]:
    """Yield messages on errors of a task that do not depend on its cell."""
    count = Counter(subtask.name for subtask in subtasks)
    for name, number in count.items():
        if number > 1:
            yield f"subtasks: got the name {name} {number} times, allowed once"
    for number, subtask in enumerate(subtasks):
        path = f"subtasks.{number} ({subtask.name})"
        for fault in _subtask_faults(contacts, subtask):
            yield f"{path}: {fault}"


def _subtask_faults(contacts: dict[str, Contact], subtask: Subtask) -> Iterator[str]:
    mode = proposed_mode(subtask)
    unknown = [name for name in subtask.contacts if name not in contacts]
    known = ", ".join(contacts) or "none: there are no contacts"
    for name in unknown:
        yield f"contacts: got {name!r}, allowed {known}"
    if mode is None:
        yield "got neither goals nor contacts. Give one of them or both"
    if subtask.force > 0.0 and not subtask.contacts:
        yield f"force: got {subtask.force:g} N without contacts. Add contacts, or remove the force"
    if mode in ("force", "hybrid") and not (subtask.contacts and subtask.force > 0.0):
        yield f"mode: got {mode} without contacts and a force, allowed optimization"
    if mode == "hybrid" and not subtask.goals:
        yield "mode: got hybrid without goals, allowed force"
    if mode == "optimization" and subtask.force > 0.0:
        yield f"force: got {subtask.force:g} N in mode optimization, allowed 0"
    pressing = [contacts[name] for name in subtask.contacts if name in contacts]
    hands = Counter(arm for contact in pressing for arm in contact.arms)
    for arm, number in hands.items():
        if number > 1:
            yield f"contacts: got {arm} {number} times, allowed once"
    held = {contact.object for contact in pressing} if subtask.force > 0.0 else set()
    # In mode hybrid, pressing tools move with their object and have no goals of their own. In mode
    # force, a tool may have a goal on the pressed object, as in polishing.
    busy = hands if mode == "hybrid" else Counter()
    without_plan = mode == "force" or subtask.on_failure.fallback == "force"
    for number, goal in enumerate(subtask.goals):
        for fault in _goal_faults(goal, held, busy):
            yield f"goals.{number}: {fault}"
        if without_plan and goal.z_axis is not None:
            yield (
                f"goals.{number}: z_axis: is not supported in mode force. Use position, offset "
                "and rpy"
            )
    if subtask.on_failure.fallback == "force" and not subtask.force:
        yield "on_failure.fallback: got force without a contact force, allowed stop"
    frames = Counter(goal.frame for goal in subtask.goals)
    for frame, number in frames.items():
        if number > 1:
            yield f"goals: got {frame} {number} times, allowed once"


def _goal_faults(goal: Goal, held: set[str], hands: Counter[str]) -> Iterator[str]:
    if goal.position is not None and goal.offset is not None:
        yield "got position and offset, allowed one of them"
    if goal.rpy is not None and goal.z_axis is not None:
        yield "got rpy and z_axis, allowed one of them"
    if goal.position is None and goal.offset is None and goal.rpy is None and goal.z_axis is None:
        yield "got no component. Give position, offset, rpy or z_axis"
    if goal.z_axis is not None and np.linalg.norm(goal.z_axis) < 1e-6:
        yield f"z_axis: got {goal.z_axis}, allowed a non-zero vector"
    if goal.base == goal.frame:
        yield f"base: got {goal.base}, the frame itself, allowed world or another object"
    if goal.base in held and goal.base != goal.frame:
        yield (
            f"base: got {goal.base}, which is carried, allowed world or an object that is not "
            "carried"
        )
    if goal.frame.endswith(TOOL_SUFFIX):
        if goal.frame.removesuffix(TOOL_SUFFIX) in hands:
            yield (
                f"frame: got {goal.frame}, whose gripper presses on an object. Use the object as "
                "frame"
            )
    elif goal.frame not in held:
        yield (
            f"frame: got {goal.frame!r}, allowed a tool (ARM/tool) or an object that is pressed: "
            f"{', '.join(sorted(held)) or 'none is'}"
        )


def cell_faults(
    law: str, contacts: dict[str, Contact], subtasks: list[Subtask], config: CellConfig
) -> Iterator[str]:
    """Yield messages on errors of a task that depend on its cell.

    Args:
        law: Name of the controllet that executes the task.
        contacts: Contacts of the task, by name.
        subtasks: Subtasks of the task.
        config: Checked cell configuration.
    """
    laws = {one.name: one for one in config.instances() if one.type == CONTROLLET_TYPE}
    if law not in laws:
        known = ", ".join(laws) or f"none: the cell has no controllet of type {CONTROLLET_TYPE}"
        yield f"controllet: got {law!r}, allowed {known}"
        return
    arms, objects = (
        laws[law].arms,
        {scene_object.name: scene_object for scene_object in describe_objects(config)},
    )
    for name, contact in contacts.items():
        for arm in contact.arms:
            if arm not in arms:
                yield f"contacts.{name}.arms: got {arm!r}, allowed {', '.join(arms)} (of {law})"
        if contact.object not in objects:
            yield (
                f"contacts.{name}.object: got {contact.object!r}, allowed "
                f"{', '.join(objects) or 'none: the cell has no objects'}"
            )
            continue
        try:
            contact_points(contact, objects[contact.object])
        except ConfigurationError as error:
            yield f"contacts.{name}.{error}"
    max_value = config.gate.force
    for number, subtask in enumerate(subtasks):
        if subtask.force > max_value:
            yield (
                f"subtasks.{number} ({subtask.name}): force: got {subtask.force:g} N, allowed up "
                f"to {max_value:g} N (gate.force of the cell)"
            )
        for obj in subtask.allowed_contacts:
            if obj not in objects:
                yield (
                    f"subtasks.{number} ({subtask.name}): allowed_contacts: got {obj!r}, "
                    f"allowed {', '.join(objects) or 'none: the cell has no objects'}"
                )
        for index, goal in enumerate(subtask.goals):
            path = f"subtasks.{number} ({subtask.name}): goals.{index}"
            if goal.base not in (WORLD, *objects):
                yield f"{path}.base: got {goal.base!r}, allowed {', '.join((WORLD, *objects))}"
            tools = [arm + TOOL_SUFFIX for arm in arms]
            if goal.frame not in (*tools, *objects):
                yield f"{path}.frame: got {goal.frame!r}, allowed {', '.join((*tools, *objects))}"
            elif goal.frame in objects and objects[goal.frame].mass == 0.0:
                yield f"{path}.frame: {goal.frame} is fixed, allowed objects with a mass"


class TaskFile(Section):
    """Content of a task file.

    The constructor raises pydantic errors. :meth:`from_dict` raises readable errors.
    """

    name: Name
    cell: str = ""
    """Path of the cell file, absolute or relative to the task file."""
    controllet: str
    """Name of the ``optimization_augmented`` controllet that executes the task with its arms."""
    clearance: Annotated[float, Field(ge=0, le=0.5)] | None = None
    """Minimum distance between bodies on planned paths [m]. By default plans ignore obstacles."""
    contacts: dict[Name, Contact] = {}
    subtasks: Annotated[list[Subtask], Field(min_length=1, max_length=200)]

    @classmethod
    def from_dict(cls, data: Any, source: str = "task") -> TaskFile:
        """Create a task from a nested dictionary and check it.

        Args:
            data: Content of a task file as a dictionary.
            source: Origin of the data for messages, such as the path of the file.

        Raises:
            ConfigurationError: If the task has errors. The message lists all of them.
        """
        if not isinstance(data, Mapping):
            raise ConfigurationError(
                f"{source}: got {data!r:.60}, allowed a mapping with the keys {_keys()}"
            )
        try:
            task = cls.model_validate(data)
        except ValidationError as error:
            raise ConfigurationError(*(f"{source}: {f}" for f in messages(error, cls))) from None
        if faults := list(task_faults(task.contacts, task.subtasks)):
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return task

    @classmethod
    def from_yaml(cls, path: str | Path) -> TaskFile:
        """Read and check a task file.

        Raises:
            ConfigurationError: If the file cannot be read or has errors. The message lists all of
                them.
        """
        return cls.from_content(read(path), path)

    @classmethod
    def from_content(cls, data: Any, path: str | Path) -> TaskFile:
        """Create a task from the content of a task file and check it.

        Args:
            data: Content of the task file as a dictionary.
            path: Path of the task file. ``cell`` in the content is relative to its folder.
        """
        if isinstance(data, Mapping) and isinstance(data.get("cell"), str) and data["cell"]:
            data = {**data, "cell": str(Path(path).parent / data["cell"])}
        return cls.from_dict(data, str(path))

    def check(self, config: CellConfig) -> None:
        """Raise an error if the task does not fit a cell.

        Raises:
            ConfigurationError: If objects, arms or limits do not fit. The message has all errors.
        """
        if faults := list(cell_faults(self.controllet, self.contacts, self.subtasks, config)):
            raise ConfigurationError(*(f"{self.name}: {fault}" for fault in faults))

    def points(self, subtask: Subtask, config: CellConfig) -> list[ContactPoint]:
        """Return the contact points of a subtask, in a cell that :meth:`check` has accepted."""
        objects = {obj.name: obj for obj in describe_objects(config)}
        return [
            point
            for name in subtask.contacts
            for point in contact_points(self.contacts[name], objects[self.contacts[name].object])
        ]


def _keys() -> str:
    return ", ".join(TaskFile.model_fields)
