# SPDX-License-Identifier: Apache-2.0
"""Task files as clients name them, who may be on another machine."""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

from multipanda_py.config.ros_yaml import read
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.regular_file import MAX_REMOTE
from multipanda_py.tasks import TaskFile

_NEEDED = {"name", "law", "subtasks"}


def task_of(name: str) -> TaskFile:
    """Read the task of that name: one of the package's share, or a file by its absolute path.

    Args:
        name: ``carry_box`` or ``/home/me/tasks/lift.yaml``. A relative path would be one of the
            folder that the node was started in, which its clients do not know.

    Raises:
        ConfigurationError: If there is none, or it is faulty, with every fault.

    Thread: any.
    """
    path = Path(name)
    if not path.is_absolute():
        shipped = _shipped()
        if name not in shipped:
            known = ", ".join(sorted(shipped)) or "none is installed"
            raise ConfigurationError(
                f"file: got {name!r:.200}, allowed an absolute path, or a task of the package: "
                f"{known}"
            )
        path = shipped[name]
    data = read(path, MAX_REMOTE)
    if not isinstance(data, dict) or not _NEEDED <= data.keys() <= TaskFile.model_fields.keys():
        raise ConfigurationError(  # without content: a client may name a private file
            f"{path}: got no task file, allowed the keys {', '.join(TaskFile.model_fields)}"
        )
    return TaskFile.from_content(data, path)


def _shipped() -> dict[str, Path]:
    """Return the tasks of the package by name."""
    try:
        share = Path(get_package_share_directory("multipanda_py"))
    except PackageNotFoundError:
        return {}
    return {path.stem: path for path in (share / "config" / "tasks").glob("*.yaml")}
