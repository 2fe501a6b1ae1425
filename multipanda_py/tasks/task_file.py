# SPDX-License-Identifier: Apache-2.0
"""The task file: one YAML that says what arms are to do, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from multipanda_py.config.bounds import Name
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_objects
from multipanda_py.config.ros_yaml import read
from multipanda_py.config.section import Section
from multipanda_py.config.sentences import sentences
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.tasks.contact_points import ContactPoint, contact_points
from multipanda_py.tasks.rules import cell_faults, task_faults
from multipanda_py.tasks.sections import Contact, Subtask


class TaskFile(Section):
    """A whole task. Raises what pydantic raises; use :meth:`from_dict` for sentences."""

    name: Name
    cell: str = ""
    """Its cell file; a relative path is one beside the task file."""
    law: str
    """The controllet that does it, of type ``optimization_augmented``; its arms do the task."""
    clearance: Annotated[float, Field(ge=0, le=0.5)] | None = None
    """What planned paths keep between bodies that are not to touch [m]; by default they know of
    nothing around."""
    contacts: dict[Name, Contact] = {}
    subtasks: Annotated[list[Subtask], Field(min_length=1, max_length=200)]

    @classmethod
    def from_dict(cls, data: Any, source: str = "task") -> TaskFile:
        """Check a nested dictionary.

        Raises:
            ConfigurationError: With one sentence for every fault.
        """
        if not isinstance(data, Mapping):
            raise ConfigurationError(f"{source}: got {data!r:.60}, allowed {_keys()}")
        try:
            task = cls.model_validate(data)
        except ValidationError as error:
            raise ConfigurationError(*(f"{source}: {f}" for f in sentences(error, cls))) from None
        if faults := list(task_faults(task.contacts, task.subtasks)):
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return task

    @classmethod
    def from_yaml(cls, path: str | Path) -> TaskFile:
        """Read and check a task file.

        Raises:
            ConfigurationError: If it cannot be read or is faulty, with every fault.
        """
        return cls.from_content(read(path), path)

    @classmethod
    def from_content(cls, data: Any, path: str | Path) -> TaskFile:
        """Check the content of a task file; see :meth:`from_yaml`."""
        if isinstance(data, Mapping) and isinstance(data.get("cell"), str) and data["cell"]:
            data = {**data, "cell": str(Path(path).parent / data["cell"])}
        return cls.from_dict(data, str(path))

    def check(self, config: CellConfig) -> None:
        """Refuse a cell that does not have what the task is about.

        Raises:
            ConfigurationError: With one sentence for every fault.
        """
        if faults := list(cell_faults(self.law, self.contacts, self.subtasks, config)):
            raise ConfigurationError(*(f"{self.name}: {fault}" for fault in faults))

    def points(self, subtask: Subtask, config: CellConfig) -> list[ContactPoint]:
        """Return the points that a subtask's hands touch, on a cell that was checked."""
        things = {thing.name: thing for thing in describe_objects(config)}
        return [
            point
            for name in subtask.contacts
            for point in contact_points(self.contacts[name], things[self.contacts[name].thing])
        ]


def _keys() -> str:
    return ", ".join(TaskFile.model_fields)
