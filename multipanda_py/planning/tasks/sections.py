# SPDX-License-Identifier: Apache-2.0
"""How subtasks are done, and how they are without one of the three that the law combines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from multipanda_py.config.section import Name, Offset, Position, Rpy, Section

Mode: TypeAlias = Literal["optimization", "force", "hybrid"]
Side: TypeAlias = Literal["+x", "-x", "+y", "-y", "+z", "-z"]
WORLD = "world"


class Goal(Section):
    """Where a frame is to be at the end of a subtask: all of it, or what is said of it.

    Of a tool what is not said is free; a thing keeps its orientation if none is said.
    """

    frame: str
    """``ARM/tool``, or a thing that the arms hold."""
    base: str = WORLD
    """What the numbers are in: ``world``, or a thing."""
    position: Position | None = None
    by: Offset | None = None
    """How far from where it is when the subtask begins, along the axes of ``base`` [m]."""
    rpy: Rpy | None = None
    points: Position | None = None
    """Direction of its z axis."""


class Contact(Section):
    """Where hands touch a thing: one on a side, or two on opposite sides, along one line."""

    thing: str
    arms: Annotated[list[Name], Field(min_length=1, max_length=2)]
    """The first touches ``side``, the second, if there is one, the opposite side."""
    side: Side
    """Of the thing, by its own axes."""
    at: Offset = [0.0, 0.0, 0.0]
    """How far the line is from the one through the centre, across the side [m]."""
    pivots: bool = False
    """Whether tips may turn on the thing, as balls do, in plans; else hands hold it rigidly."""


class Recourse(Section):
    """What happens when a subtask fails."""

    retry: Annotated[int, Field(ge=0, le=100)] = 0
    """How often it is tried again, from where things are then."""
    then: Literal["stop", "force"] = "stop"
    """Stop and hold; or try in mode ``force``, without a plan, and stop and hold after that."""


class Subtask(Section):
    """One step of a task."""

    name: Name
    mode: Mode | None = None
    """Proposed from the goals, contacts and force if it is not given."""
    goals: list[Goal] = []
    contacts: list[Name] = []
    """Names of those of the task that are touched; without a force, gone in front of."""
    force: Annotated[float, Field(ge=0, le=200)] = 0.0
    """With which every hand presses on its contact [N]."""
    distance: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """From the contacts, where nothing is pressed [m]."""
    touching: list[Name] = []
    """Things that hands may touch on their way, and that what they carry may rest on."""
    duration: Annotated[float, Field(ge=0.2, le=300)] = 3.0
    """Of the planned motion [s]."""
    slices: Annotated[int, Field(ge=3, le=100)] = 10
    """Of the plan."""
    tolerance: Annotated[float, Field(ge=1e-4, le=1)] = 0.01
    """Of positions at the end [m]."""
    turn_tolerance: Annotated[float, Field(ge=1e-3, le=3.2)] = 0.1
    """Of orientations at the end [rad]."""
    force_band: Annotated[float, Field(ge=0.01, le=1)] = 0.3
    """How far a force may be from what it is to be, as a share of it."""
    settle: Annotated[float, Field(ge=0, le=60)] = 0.2
    """How long forces have to be within the band before anything moves [s]."""
    moved: Annotated[float, Field(ge=1e-3, le=1)] = 0.03
    """How far a thing may be from where the plan has it; beyond, a new one is made [m]."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Longest time of one try [s]."""
    on_failure: Recourse = Recourse()


def proposed_mode(subtask: Subtask) -> Mode | None:
    """Return the mode that goals, contacts and force ask for, None if they ask for nothing.

    ==================  ===========================
    goals, no force     ``optimization``
    force, no goals     ``force``
    force and goals     ``hybrid``
    ==================  ===========================

    Contacts without a force are goals: to be in front of them.
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
