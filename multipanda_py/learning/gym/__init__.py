# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments: cells that policies act on.

After ``import multipanda_py.learning.gym``, ``gymnasium.make("multipanda/lift_box-v0")`` makes a
:class:`.CellEnv`; its arguments are those of the class. Needs gymnasium, of the extra ``gym``.
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
    """Let ``gymnasium.make`` know every task, as ``multipanda/<name>-v0``; again is the same."""
    for name in task_names():
        label = f"{NAMESPACE}/{name}-v0"
        if label not in gymnasium.registry:
            gymnasium.register(
                label, entry_point="multipanda_py.learning.gym.env:CellEnv", kwargs={"task": name}
            )


require("gymnasium")


__all__ = ["CellEnv", "GymTask", "register"]

register()
