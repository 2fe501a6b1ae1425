# SPDX-License-Identifier: Apache-2.0
"""How subtasks are done, and how they are without one of the three that the law combines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from multipanda_py.tasks.sections import Mode, Subtask

Part: TypeAlias = Literal["force", "plan", "hybrid"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Manner:
    """How a subtask is planned, and how it is done.

    Attributes:
        planned: ``optimization``: a path of free arms; ``hybrid``: of arms that hold their
            things; ``force``: straight ways of the tools, without a path.
        mode: Of the law.
        presses: Whether forces are asked for.
        subtask: What is done.
    """

    planned: Mode
    mode: Mode
    presses: bool
    subtask: Subtask


def manner(subtask: Subtask, mode: Mode, without: Part | None = None) -> Manner:
    """Return how a subtask is done, with everything or without one part.

    ========  =====================================================================
    without
    ========  =====================================================================
    force     hands go onto their contacts, and follow the same plans; none presses
    plan      tools are led straight, with their forces where they have some
    hybrid    never both at once: hands press, and then follow a plan without a force
    ========  =====================================================================

    It shows what a task needs: Özcan and Oguz say of theirs that none can be done without.

    Args:
        subtask: Of a checked task.
        mode: In which it would be done.
        without: Which part is left out.
    """
    if without == "plan":
        return Manner("force", "force", mode != "optimization", subtask)
    if without == "force" and mode == "force" and not subtask.goals:
        touch = subtask.model_copy(update={"force": 0.0, "distance": 0.0})
        return Manner("optimization", "optimization", False, touch)
    if without == "force" and mode == "force":
        return Manner("force", "force", False, subtask)
    if without is not None and mode == "hybrid":
        return Manner("hybrid", "optimization", False, subtask)
    return Manner(mode, mode, mode != "optimization", subtask)
