# SPDX-License-Identifier: Apache-2.0
"""Tasks of several subtasks, read from files, planned and executed on a cell."""

from multipanda_py.cell.tasks.runner import TaskRunner
from multipanda_py.planning.tasks.check import check_task
from multipanda_py.planning.tasks.task_file import TaskFile

__all__ = ["TaskFile", "TaskRunner", "check_task"]
