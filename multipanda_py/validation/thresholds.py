# SPDX-License-Identifier: Apache-2.0
"""Whether real arms would take the forces of a task for a collision."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.dynamics.tool_jacobian import ToolJacobian
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.state import Vector
from multipanda_py.validation.task import SIMULATED, Task

ROOM = 1.5
"""How many times the force of a task thresholds have to be: laws overshoot."""
FORCES, TORQUES = "upper_force_thresholds", "upper_torque_thresholds"


def check_thresholds(task: Task, scene: CellConfig) -> None:
    r"""Refuse a task in whose middle a real arm would stop as after a collision.

    .. math:: F_{max} \ge 1.5\,\|f\|, \qquad \tau_{max} \ge 1.5\,|J(q_0)^T f|

    Args:
        task: Whose scene it is, with the forces f that its arms exert.
        scene: With the arms where the task begins.

    Raises:
        ValidationRefused: With the thresholds that it needs.
    """
    for name, force in task.exerts.items():
        arm = scene.arms[name]
        forces, torques = (getattr(arm.settings, key, None) for key in (FORCES, TORQUES))
        if arm.backend == SIMULATED or forces is None or torques is None:
            continue
        described = describe_arm(name, arm)
        jacobian = ToolJacobian(described).at(np.array(arm.q_start))[:3]
        needed = {
            FORCES: np.array([ROOM * np.linalg.norm(force)] * 3 + [0.0] * 3),
            TORQUES: ROOM * np.abs(jacobian.T @ described.rotation_base_in_world.T @ force),
        }
        lacking = [
            f"{key}: {_enough(np.array(given), needed[key])}"
            for key, given in ((FORCES, forces), (TORQUES, torques))
            if (np.array(given) < needed[key]).any()
        ]
        if lacking:
            raise ValidationRefused(
                f"task {task.number}: {name} would stop as after a collision: it exerts "
                f"{np.linalg.norm(force):.3g} N, for which arms.{name}.{arm.section} of the cell "
                f"file needs {', '.join(lacking)} or more"
            )


def _enough(given: Vector, needed: Vector) -> str:
    """Return thresholds as a cell file has them, raised to what is needed."""
    values = np.maximum(given, np.ceil(needed))
    return f"[{', '.join(f'{value:.1f}' for value in values)}]"
