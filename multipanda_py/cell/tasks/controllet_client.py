# SPDX-License-Identifier: Apache-2.0
"""Client of the controllet that executes a task, and observation of arms and objects."""

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
from multipanda_py.planning.tasks.world_state import ContactPoint, WorldState
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.state import Vector
from multipanda_py.targets import Report

PRESSING = Report("pressing")
FORCE = Report("force", "N")
FORCE_ERROR = Report("force error", "N")
NORMAL_CHANGE = 0.01
"""Rotation of a contact normal above which a new wrench target is sent [rad]."""


REST_SPEED = 0.05
"""Maximum speed of a joint at the start of a plan [rad/s]."""
RELEASED_FRACTION = 0.25
"""Contacts count as released if the external torque of every joint is below this fraction of the
robot's contact threshold."""


def observe(cell: Cell, arms: Collection[str]) -> WorldState:
    """Return the present state of the arms and all objects of a cell.

    Raises:
        LoopError: If the loop has not run yet, or joint positions are not finite.
    """
    bases = bases_in_world(cell.config)
    fixed = {
        obj.name: Pose(obj.position, obj.rotation)
        for obj in describe_objects(cell.config)
        if obj.mass == 0.0
    }
    return WorldState(
        {arm: cell.state(arm).q for arm in arms},
        {arm: bases[arm] @ cell.pose(arm) for arm in arms},
        {**fixed, **cell.objects()},
        {arm: cell.state(arm).q for arm in cell.arms if arm not in arms},
    )


class ControlletClient:
    """Client of the controllet (type ``optimization_augmented``) that executes a task.

    Attributes:
        arms: Names of the arms of the controllet.
    """

    def __init__(self, cell: Cell, law: str) -> None:
        self._cell, self._name = cell, law
        self.arms = cell.spec(law).config.arms
        self._commanded_directions: dict[str, Vector] = {}
        self._notice = ""
        self._events, _ = cell.events_since(0)
        self._has_pressed = False

    def observe(self) -> WorldState:
        """Return the present state of arms and objects."""
        self._events, result = self._cell.events_since(self._events)
        for event in result:
            if event.event is Event.NOTICE and event.controllet in ("", self._name):
                self._notice = event.text
        return observe(self._cell, self.arms)

    def set_mode(self, mode: Mode) -> None:
        """Set the parameter ``mode`` of the controllet, unless it has this value."""
        if self._cell.parameters(self._name)["mode"] != mode:
            self._cell.set_parameters(self._name, {"mode": mode})

    def clear_wrenches_except(self, pressing: Collection[str]) -> None:
        """Set a zero wrench target for every arm except the arms named in ``pressing``."""
        for arm in self.arms:
            if arm not in pressing:
                self._cell.set_target(arm, wrench=np.zeros(6))

    def press(self, points: Sequence[ContactPoint], force: float, state: WorldState) -> None:
        """Command a contact force [N] at each point, normal to the surface of the object."""
        for point in points:
            direction = state.pose(point.object_name).rotation @ point.inward
            commanded = self._commanded_directions.get(point.arm)
            if commanded is not None and np.linalg.norm(direction - commanded) < NORMAL_CHANGE:
                continue
            self._commanded_directions[point.arm] = direction
            wrench = np.concatenate([force * direction, np.zeros(3)])
            self._cell.set_target(point.arm, wrench=wrench, frame=WORLD)

    def start_motion(self, plan: SubtaskPlan) -> None:
        """Start the joint motion of a plan; no effect for a plan of straight tool paths.

        Raises:
            TargetRejected: If the cell rejects the motion.
        """
        if plan.postures:
            self._cell.follow_trajectories(
                self._name,
                {arm: Trajectory(plan.points(arm, self._cell.state(arm).q)) for arm in self.arms},
            )

    def is_ready(self, may_touch: bool) -> bool:
        """Return True if the arms are at rest, and have no contact unless it is allowed."""
        for arm in self.arms:
            state = self._cell.state(arm)
            contact = np.array(self._cell.descriptions[arm].robot.value("contact_torque"))
            if np.abs(state.dq).max() > REST_SPEED:
                return False
            if not may_touch and (np.abs(state.tau_ext) > RELEASED_FRACTION * contact).any():
                return False
        return True

    def set_path_targets(self, plan: SubtaskPlan, time: float) -> None:
        """Set pose targets of the tools on their straight paths, at a time since the start [s].

        Raises:
            TargetRejected: If a target is too far from its tool, for example because the tool is
                blocked.
        """
        for arm, pose in plan.tool_poses(time).items():
            self._cell.set_target(arm, pose, frame=WORLD)

    def stop(self, mode: Mode) -> None:
        """Stop the motion of the arms without releasing contact forces."""
        if mode == "force":
            for arm in self.arms:
                self._cell.set_target(arm, self._cell.pose(arm))
        else:
            self._cell.follow_trajectories(self._name, {arm: Trajectory([]) for arm in self.arms})

    @property
    def motion_count(self) -> int:
        """Number of motions that the controllet has started."""
        return round(self._cell.report(self._name).value(MOTIONS))

    def has_reached_goal(self, count_before: int) -> bool:
        """Return True if the newest motion has ended at its goal.

        Args:
            count_before: Value of :attr:`motion_count` before the motion was commanded.

        Raises:
            TaskFailed: If the motion ended before its goal.
        """
        report = self._cell.report(self._name)
        if round(report.value(MOTIONS)) == count_before:
            return False
        state = MotionState(round(report.value(STATE)))
        if state > MotionState.DONE:
            words = state.name.lower().replace("_", " ")
            raise TaskFailed(f"the motion ended before its goal: {words}{self.failure_details()}")
        return state is not MotionState.RUNNING

    def is_pressing(self, max_force_error: float) -> bool:
        """Return True if all commanded contacts exist with force errors up to a maximum [N]."""
        report = self._cell.report(self._name)
        if report.value(PRESSING) < 1.0:
            return False
        self._has_pressed = True
        return report.value(FORCE_ERROR) <= max_force_error

    def contact_problem(self) -> str:
        """Return the reason why a contact was lost or not found; empty otherwise."""
        if self._has_pressed and self._cell.report(self._name).value(PRESSING) < 1.0:
            return self._notice or "contact lost"
        return self._notice if self._notice.startswith("no contact found") else ""

    def force_text(self) -> str:
        """Return the mean contact force of the arms and the maximum force error as text."""
        report = self._cell.report(self._name)
        return f"{report.value(FORCE):.1f} N, error up to {report.value(FORCE_ERROR):.1f} N"

    def failure_details(self) -> str:
        """Return joints near limits and the last notice of the controllet, as text."""
        notice = f" ({self._notice})" if self._notice else ""
        return "".join(f"; {words}" for words in self._at_limits()) + notice

    def _at_limits(self) -> Iterator[str]:
        for arm in self.arms:
            limits, q = self._cell.descriptions[arm].limits, self._cell.state(arm).q
            distance = np.minimum(q - limits.lower, limits.upper - q)
            for joint in np.flatnonzero(distance < LIMIT_MARGIN):
                yield (
                    f"joint {joint + 1} of {arm} is {distance[joint]:.3f} "
                    f"{limits.unit(joint, 'rad')} from its limit"
                )
