# SPDX-License-Identifier: Apache-2.0
"""Client of the controllet that executes a task, and the observed state of its cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.describe import bases_in_world, describe_objects
from multipanda_py.control.reference.trajectory_monitor import MOTIONS, STATE, MotionState
from multipanda_py.controllets.targets.joint import Trajectory
from multipanda_py.exceptions import TaskFailed
from multipanda_py.planning.tasks.path_problem import LIMIT_MARGIN, SubtaskPlan
from multipanda_py.planning.tasks.sections import WORLD, Mode
from multipanda_py.planning.tasks.world_state import ContactPoint, Seen
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.state import Vector
from multipanda_py.targets import Report

PRESSING = Report("pressing")
FORCE = Report("force", "N")
FORCE_ERROR = Report("force error", "N")
TURNED = 0.01
"""Turn from which on a direction is told anew [rad]; the law turns to it by itself."""


REST = 0.05
"""Maximum speed of a joint at the start of a plan [rad/s]."""
FADED = 0.25
"""Fraction of the contact torque threshold, below which a force has faded."""


def look(cell: Cell, arms: Collection[str]) -> Seen:
    """Return where the arms and all things of a cell are now.

    Raises:
        LoopError: If the loop has not run, or an arm has no finite posture.
    """
    bases = bases_in_world(cell.config)
    fixed = {
        thing.name: Pose(thing.position, thing.rotation)
        for thing in describe_objects(cell.config)
        if thing.mass == 0.0
    }
    return Seen(
        {arm: cell.state(arm).q for arm in arms},
        {arm: bases[arm] @ cell.pose(arm) for arm in arms},
        {**fixed, **cell.objects()},
        {arm: cell.state(arm).q for arm in cell.arms if arm not in arms},
    )


class LawHandle:
    """Speak with an active ``optimization_augmented`` law.

    Args:
        cell: A started cell.
        law: Name of the controllet.

    Attributes:
        arms: That it has.
    """

    def __init__(self, cell: Cell, law: str) -> None:
        self._cell, self._name = cell, law
        self.arms = cell.spec(law).config.arms
        self._told: dict[str, Vector] = {}
        self._notice = ""
        self._events, _ = cell.events_since(0)
        self._has_pressed = False

    def look(self) -> Seen:
        """Return where everything is now."""
        self._events, found = self._cell.events_since(self._events)
        for event in found:
            if event.event is Event.NOTICE and event.controllet in ("", self._name):
                self._notice = event.text
        return look(self._cell, self.arms)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode, if it is another one."""
        if self._cell.parameters(self._name)["mode"] != mode:
            self._cell.set_parameters(self._name, {"mode": mode})

    def release(self, pressing: Collection[str]) -> None:
        """Ask for no force of hands that are not to press."""
        for arm in self.arms:
            if arm not in pressing:
                self._cell.set_target(arm, wrench=np.zeros(6))

    def press(self, points: Sequence[ContactPoint], force: float, seen: Seen) -> None:
        """Ask hands for their forces, along the normals of the thing as it is turned now."""
        for point in points:
            direction = seen.pose(point.thing).rotation @ point.inward
            told = self._told.get(point.arm)
            if told is not None and np.linalg.norm(direction - told) < TURNED:
                continue
            self._told[point.arm] = direction
            wrench = np.concatenate([force * direction, np.zeros(3)])
            self._cell.set_target(point.arm, wrench=wrench, frame=WORLD)

    def go(self, plan: SubtaskPlan) -> None:
        """Begin a plan.

        Raises:
            TargetRejected: If the cell does not take it.
        """
        if plan.postures:
            self._cell.follow_together(
                self._name,
                {arm: Trajectory(plan.points(arm, self._cell.state(arm).q)) for arm in self.arms},
            )

    def can_begin(self, presses: bool) -> bool:
        """Return whether the arms are at rest, so that a plan can begin.

        Args:
            presses: Whether the arms keep pressing in the plan. Otherwise a force that still
                fades would end the motion as an unexpected contact.
        """
        for arm in self.arms:
            state = self._cell.state(arm)
            contact = np.array(self._cell.descriptions[arm].robot.figure("contact_torque"))
            if np.abs(state.dq).max() > REST:
                return False
            if not presses and (np.abs(state.tau_ext) > FADED * contact).any():
                return False
        return True

    def lead(self, plan: SubtaskPlan, time: float) -> None:
        """Lead tools on their ways without a plan, at a time since their start [s].

        Raises:
            TargetRejected: If a tool does not come along.
        """
        for arm, pose in plan.led(time).items():
            self._cell.set_target(arm, pose, frame=WORLD)

    def stop(self, mode: Mode) -> None:
        """Let the arms stay where they are; forces go on."""
        if mode == "force":
            for arm in self.arms:
                self._cell.set_target(arm, self._cell.pose(arm))
        else:
            self._cell.follow_together(self._name, {arm: Trajectory([]) for arm in self.arms})

    @property
    def motions(self) -> int:
        """How many motions there were."""
        return round(self._cell.report(self._name).value(MOTIONS))

    def has_ended(self, before: int) -> bool:
        """Return whether the motion after so many is at its end.

        Raises:
            TaskFailed: If it ended before its goal.
        """
        report = self._cell.report(self._name)
        if round(report.value(MOTIONS)) == before:
            return False
        state = MotionState(round(report.value(STATE)))
        if state > MotionState.DONE:
            words = state.name.lower().replace("_", " ")
            raise TaskFailed(f"motion ended before its goal: {words}{self.words()}")
        return state is not MotionState.RUNNING

    def is_pressing(self, band: float) -> bool:
        """Return whether all hands press, each with its force within a band [N]."""
        report = self._cell.report(self._name)
        if report.value(PRESSING) < 1.0:
            return False
        self._has_pressed = True
        return report.value(FORCE_ERROR) <= band

    def lost(self) -> str:
        """Say that a contact was lost, or is not to be found; empty if not."""
        if self._has_pressed and self._cell.report(self._name).value(PRESSING) < 1.0:
            return self._notice or "contact lost"
        return self._notice if self._notice.startswith("no contact found") else ""

    def forces(self) -> str:
        """Say with how much hands press."""
        report = self._cell.report(self._name)
        return f"{report.value(FORCE):.1f} N, at most {report.value(FORCE_ERROR):.1f} N off"

    def words(self) -> str:
        """Return joints at limits and the last notice of the law, as a suffix for a reason."""
        notice = f" ({self._notice})" if self._notice else ""
        return "".join(f"; {words}" for words in self._at_limits()) + notice

    def _at_limits(self) -> Iterator[str]:
        """Yield a text for each joint inside the barrier of a position limit."""
        for arm in self.arms:
            limits, q = self._cell.descriptions[arm].limits, self._cell.state(arm).q
            room = np.minimum(q - limits.lower, limits.upper - q)
            for joint in np.flatnonzero(room < LIMIT_MARGIN):
                yield (
                    f"joint {joint + 1} of {arm} is {room[joint]:.3f} {limits.unit(joint, 'rad')} "
                    "from its limit"
                )
