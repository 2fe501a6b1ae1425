# SPDX-License-Identifier: Apache-2.0
"""How far a twin is from a plant: tasks, what they record, errors between them, a report.

:func:`validate` runs tasks on two cells and compares them; :data:`TASKS` are those of
multipanda_ros2, section V-B.
"""

from multipanda_py.identification.validation.compare import Comparison, compare
from multipanda_py.identification.validation.record import Run, run_task
from multipanda_py.identification.validation.tasks import TASKS, make_task
from multipanda_py.identification.validation.validate import validate

__all__ = ["TASKS", "Comparison", "Run", "compare", "make_task", "run_task", "validate"]
