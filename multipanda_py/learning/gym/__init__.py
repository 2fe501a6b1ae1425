# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments whose actions control the arms of a cell.

After ``import multipanda_py.learning.gym``, ``gymnasium.make("multipanda/lift_box-v0")`` creates a
:class:`.CellEnv` and accepts its arguments. Requires gymnasium from the extra ``gym``.
"""

from __future__ import annotations

import gymnasium

from multipanda_py.learning.gym.env import CellEnv
from multipanda_py.learning.gym.task import (
    GymTask,
    task_names,
)
from multipanda_py.registry import require

NAMESPACE = "multipanda"


def register() -> None:
    """Register every task as ``multipanda/<name>-v0``. Repeated calls have no effect."""
    for name in task_names():
        label = f"{NAMESPACE}/{name}-v0"
        if label not in gymnasium.registry:
            gymnasium.register(
                label, entry_point="multipanda_py.learning.gym.env:CellEnv", kwargs={"task": name}
            )


require("gymnasium")


__all__ = ["CellEnv", "GymTask", "register"]

register()
