# SPDX-License-Identifier: Apache-2.0
"""The names by which ``gymnasium.make`` knows the environments."""

from __future__ import annotations

import gymnasium

from multipanda_py.gym.task_named import task_names

NAMESPACE = "multipanda"


def register() -> None:
    """Let ``gymnasium.make`` know every task, as ``multipanda/<name>-v0``; again is the same."""
    for name in task_names():
        label = f"{NAMESPACE}/{name}-v0"
        if label not in gymnasium.registry:
            gymnasium.register(
                label, entry_point="multipanda_py.gym.env:CellEnv", kwargs={"task": name}
            )
