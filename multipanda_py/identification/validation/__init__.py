# SPDX-License-Identifier: Apache-2.0
"""Validation of a simulated twin against its plant, which is a real or simulated cell.

:func:`validate` runs the same tasks on both cells and compares the recordings. :data:`TASKS` are
the tasks of the multipanda_ros2 paper, section V-B.
"""

from multipanda_py.identification.validation.compare import Comparison, compare
from multipanda_py.identification.validation.record import Run, run_task
from multipanda_py.identification.validation.tasks import TASKS, make_task
from multipanda_py.identification.validation.validate import validate

__all__ = ["TASKS", "Comparison", "Run", "compare", "make_task", "run_task", "validate"]
