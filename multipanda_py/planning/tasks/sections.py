# SPDX-License-Identifier: Apache-2.0
"""Sections of a task file, and the planning and control mode of a subtask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from multipanda_py.config.section import Name, Offset, Position, Rpy, Section

Mode: TypeAlias = Literal["optimization", "force", "hybrid"]
Side: TypeAlias = Literal["+x", "-x", "+y", "-y", "+z", "-z"]
WORLD = "world"


class Goal(Section):
    """Goal for the pose of a frame at the end of a subtask.

    Components that are not given are free. Exception: an object without ``rpy`` and ``z_axis``
    keeps its orientation.
    """

    frame: str
    """``ARM/tool``, or the name of an object that the arms hold."""
    base: str = WORLD
    """Frame of the values: ``world``, or the name of an object."""
    position: Position | None = None
    offset: Offset | None = None
    """Displacement from the position at the start of the subtask, along the axes of ``base``
    [m]."""
    rpy: Rpy | None = None
    z_axis: Position | None = None
    """Direction of the z axis of the frame in ``base``, of any length."""


class Contact(Section):
    """Contact of one gripper with a side of an object, or of two grippers with opposite sides."""

    object: str
    arms: Annotated[list[Name], Field(min_length=1, max_length=2)]
    """Names of the arms. The first touches ``side``, and the second, if any, the opposite side."""
    side: Side
    """Side of the object, in its axes."""
    offset: Offset = [0.0, 0.0, 0.0]
    """Offset of the line of contact from the centre of the side [m]."""
    pivots: bool = False
    """True if plans may rotate the tips on the object, like balls. Otherwise grippers hold it
    rigidly."""


class FailurePolicy(Section):
    """Reaction to the failure of a subtask."""

    retry: Annotated[int, Field(ge=0, le=100)] = 0
    """Maximum number of retries, each from the present state."""
    fallback: Literal["stop", "force"] = "stop"
    """Action after the retries. ``stop`` ends the task and holds. ``force`` first tries the
    subtask in mode ``force``, without a plan."""


class Subtask(Section):
    """One step of a task."""

    name: Name
    mode: Mode | None = None
    """Control mode. By default derived from goals, contacts and force."""
    goals: list[Goal] = []
    contacts: list[Name] = []
    """Names of the contacts to touch. Without a force, the tools move in front of them."""
    force: Annotated[float, Field(ge=0, le=200)] = 0.0
    """Force with which every gripper presses on its contact [N]."""
    approach_distance: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """Distance of the tools from the contacts without a force [m]."""
    allowed_contacts: list[Name] = []
    """Names of objects that grippers may touch, and on which carried objects may rest."""
    duration: Annotated[float, Field(ge=0.2, le=300)] = 3.0
    """Duration of the planned motion [s]."""
    time_steps: Annotated[int, Field(ge=3, le=100)] = 10
    """Number of time steps of the planned path."""
    position_tolerance: Annotated[float, Field(ge=1e-4, le=1)] = 0.01
    """Position tolerance at the end [m]."""
    orientation_tolerance: Annotated[float, Field(ge=1e-3, le=3.2)] = 0.1
    """Orientation tolerance at the end [rad]."""
    force_tolerance: Annotated[float, Field(ge=0.01, le=1)] = 0.3
    """Maximum force error, as a fraction of the force."""
    settling_time: Annotated[float, Field(ge=0, le=60)] = 0.2
    """Time for which force errors must be below ``force_tolerance`` before a motion starts [s]."""
    replan_distance: Annotated[float, Field(ge=1e-3, le=1)] = 0.03
    """Maximum deviation of an object from the plan [m]. Beyond it, a new plan is made."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Maximum duration of one attempt [s]."""
    on_failure: FailurePolicy = FailurePolicy()


def proposed_mode(subtask: Subtask) -> Mode | None:
    """Return ``subtask.mode``. If it is None, goals and contacts determine the returned mode.

    - Contacts with a force, and goals: ``hybrid``.
    - Contacts with a force, and no goals: ``force``.
    - No contacts with a force, but goals or contacts: ``optimization``.
    - Neither goals nor contacts: None.
    """
    if subtask.mode is not None:
        return subtask.mode
    presses = bool(subtask.contacts) and subtask.force > 0.0
    if presses:
        return "hybrid" if subtask.goals else "force"
    return "optimization" if subtask.goals or subtask.contacts else None


Part: TypeAlias = Literal["force", "plan", "hybrid"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class ExecutionMode:
    """Planning and control mode of a subtask.

    Attributes:
        planning_mode: Mode of the planner. ``optimization`` plans a path of arms that hold no
            object, ``hybrid`` a path of arms that hold objects. ``force`` uses straight tool
            paths.
        mode: Value of the parameter ``mode`` of :class:`.OptimizationAugmented`.
        presses: True if contact forces are commanded.
        subtask: Subtask to execute.
    """

    planning_mode: Mode
    mode: Mode
    presses: bool
    subtask: Subtask


def execution_mode(subtask: Subtask, mode: Mode, ablate: Part | None = None) -> ExecutionMode:
    """Return the planning and control mode of a subtask.

    Args:
        subtask: Subtask of a checked task.
        mode: Mode of the subtask without ablation.
        ablate: Part of the control method to leave out in an ablation study, or None. Without
            ``force``, tools follow the same plans without contact forces. Without ``plan``, tools
            press and follow straight paths. Without ``hybrid``, tools first press, and then follow
            a plan without contact forces.
    """
    if ablate == "plan":
        return ExecutionMode("force", "force", mode != "optimization", subtask)
    if ablate == "force" and mode == "force" and not subtask.goals:
        touch = subtask.model_copy(update={"force": 0.0, "approach_distance": 0.0})
        return ExecutionMode("optimization", "optimization", False, touch)
    if ablate == "force" and mode == "force":
        return ExecutionMode("force", "force", False, subtask)
    if ablate is not None and mode == "hybrid":
        return ExecutionMode("hybrid", "optimization", False, subtask)
    return ExecutionMode(mode, mode, mode != "optimization", subtask)
