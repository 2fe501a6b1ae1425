# SPDX-License-Identifier: Apache-2.0
"""One arm that follows a device, or holds and says why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError, TargetRejected, in_decimals
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector
from multipanda_py.teleoperation.clutch import MOST_SPEED, Clutch
from multipanda_py.teleoperation.source import TOOL, HandCommand, Touch

MOST_LEAD = (0.1, 0.5)
"""How far a target may run ahead of the tool [m, rad]."""
SAME = (0.03, 0.15)
"""A tool this near its last target goes on from there: springs sag under loads [m, rad]."""


class GuidedArm:
    """Give an arm the targets of its clutch, by the gates that are in force for everybody.

    After anything that made it hold, the clutch has to be opened and closed again.

    Args:
        cell: A started cell.
        arm: Name of the arm.
        clutch: Its clutch, which nobody else has.
        say: Takes a sentence for the user.

    Attributes:
        clutch: Clutch of the arm.
        sent: Last target of the arm; None before the first and after a refusal.

    Thread: one.
    """

    def __init__(self, cell: Cell, arm: str, clutch: Clutch, say: Callable[[str], None]) -> None:
        self._cell, self._arm, self.clutch, self._say = cell, arm, clutch, say
        self.sent: Pose | None = None
        self._is_refused = False
        cell.frames.base_of(arm)

    def touch(self, seconds: float) -> Touch:
        """Return what the arm feels now, since a time [s], along the device's axes."""
        clutch, wrench = self.clutch, self._cell.state(self._arm).wrench_ext_in_base
        along = (wrench.reshape(2, 3) @ clutch.axes).reshape(6)
        return Touch(along, clutch.is_closed, clutch.scale, seconds)

    def take(self, command: HandCommand, seconds: float, passed: float) -> None:
        """Do what a device asks for.

        Args:
            command: Of the device.
            seconds: How long to move at a twist [s].
            passed: Since the last command [s]; longer after a pause.
        """
        if command.problem:
            self.hold(command.problem)
        elif not command.is_engaged:
            self.clutch.open()
            self._is_refused = False
        elif not self._is_refused:
            try:
                self._move(command, seconds, passed)
            except TargetRejected as error:
                self.hold(str(error))
        if command.gripper and not command.problem:
            self._move_hand(command.gripper)
        self._send()

    def hold(self, why: str) -> None:
        """Leave the target where it is until the clutch is closed anew; says why, once."""
        self.clutch.open()
        if not self._is_refused:
            self._is_refused = True
            self._say(f"{self._arm} holds: {why}; open the clutch and close it to go on")

    def _move(self, command: HandCommand, seconds: float, passed: float) -> None:
        clutch, tool = self.clutch, self._cell.pose(self._arm)
        if not clutch.is_closed:
            clutch.close(self._start(tool))
        axes = self._axes(command.frame)
        if command.pose is not None:
            target = clutch.follow(command.pose, passed, axes)
        elif command.twist is not None:
            target = clutch.move(_checked(command.twist), seconds, axes)
        else:
            raise TargetRejected("the clutch is closed, but there is neither a twist nor a pose")
        target = target.clipped(tool.position, tool.rotation, *MOST_LEAD)
        if command.pose is None:
            clutch.keep(target)
        self.sent = target

    def _start(self, tool: Pose) -> Pose:
        if self.sent is not None:
            step, turn = self.sent.distance(tool)
            if step <= SAME[0] and turn <= SAME[1]:
                return self.sent
        return tool

    def _axes(self, frame: str) -> Matrix:
        """Return the axes of a frame in the arm's base, (3, 3)."""
        if frame == TOOL:
            return (self.clutch.target or self._cell.pose(self._arm)).rotation
        return self._cell.frames.base_from(frame, self._arm).rotation

    def _send(self) -> None:
        """Give the arm its target again and again: a stream that pauses counts as lost."""
        if self.sent is None:
            return
        try:
            self._cell.set_target(self._arm, self.sent)
        except TargetRejected as error:
            self.sent = None
            self.hold(str(error))

    def _move_hand(self, wish: str) -> None:
        try:
            hand = self._cell.gripper(self._arm)
            if wish == "open":
                hand.move(hand.state().max_width)
            else:  # whatever is between the fingers
                hand.grasp(0.0, epsilon_outer=hand.description.max_width)
        except MultipandaError as error:
            self._say(f"{self._arm}: {error}")


def _checked(twist: object) -> Vector:
    try:
        numbers = np.array(twist, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.full(1, np.nan)
    if numbers.shape != (6,) or not np.isfinite(numbers).all():
        raise TargetRejected(f"twist: got {twist!r:.80}, allowed 6 finite numbers")
    speed, turn = (float(np.linalg.norm(part)) for part in (numbers[:3], numbers[3:]))
    if speed > MOST_SPEED[0] or turn > MOST_SPEED[1]:
        raise TargetRejected(
            f"twist: got {in_decimals(speed, 2)} m/s and {in_decimals(turn, 2)} rad/s, allowed "
            f"{MOST_SPEED[0]:g} m/s and {MOST_SPEED[1]:g} rad/s"
        )
    return numbers
