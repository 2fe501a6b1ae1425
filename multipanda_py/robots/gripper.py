# SPDX-License-Identifier: Apache-2.0
"""One handle for simulated and real hands."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots.models import FRANKA_HAND
from multipanda_py.robots.parallel_gripper import ParallelGripper

RECORD = 6
"""Floats of a command: action, width [m], speed [m/s], force [N] and two tolerances [m]."""


class Action(IntEnum):
    """What a gripper may be asked for."""

    HOMING = 1
    MOVE = 2
    GRASP = 3
    STOP = 4
    MEASURED = 5
    """No request: what the gripper of a real arm measures, on its way to the row."""


class Outcome(IntEnum):
    """How a command is doing, or how it ended."""

    MOVING = 0
    SUCCEEDED = 1
    UNSUCCESSFUL = 2
    """The fingers rest, but not where they should: blocked, or missed."""
    ABORTED = 3
    """Ended by a newer command or by stop."""
    FAILED = 4
    """Not executed: the gripper refused it, or has gone."""


MAX_WIDTH = FRANKA_HAND.max_width
"""Largest width of a Franka Hand [m]; a real one says its own, found by homing."""
MAX_SPEED = FRANKA_HAND.speed
"""Of a Franka Hand [m/s]."""
EPSILON = 0.005
"""Default tolerance of a grasp, as libfranka's [m]."""


@dataclass(frozen=True)
class GripperCommand:
    """A checked command; what an action does not use is zero.

    Attributes:
        action: What to do.
        width: To go to, or of the object [m].
        speed: Of the width [m/s].
        force: Of a grasp [N].
        epsilon_inner: How much narrower than ``width`` the grasped object may be [m].
        epsilon_outer: How much wider [m].
    """

    action: Action
    width: float = 0.0
    speed: float = 0.0
    force: float = 0.0
    epsilon_inner: float = 0.0
    epsilon_outer: float = 0.0

    @property
    def record(self) -> tuple[float, ...]:
        """The command as the loop's mailbox carries it."""
        return (float(self.action), self.width, self.speed, self.force,
                self.epsilon_inner, self.epsilon_outer)  # fmt: skip

    def holds(self, width: float) -> bool:
        """Return whether a grasp that ends at ``width`` has what it was meant to have."""
        return self.width - self.epsilon_inner <= width <= self.width + self.epsilon_outer

    def __str__(self) -> str:
        if self.action is Action.MOVE:
            return f"move to {self.width:.4f} m"
        if self.action is Action.GRASP:
            return f"grasp of {self.width:.4f} m with {self.force:g} N"
        return self.action.name.lower()


@dataclass(frozen=True)
class GripperState:
    """What is known of a gripper.

    Attributes:
        width: Between the fingers [m].
        max_width: With open fingers [m].
        is_grasped: Whether the last grasp holds its object.
        is_moving: Whether a command is being executed.
        age: How old the measurement is [s]. A real hand measures nothing while it moves:
            pylibfranka blocks.
        problem: Why a real gripper does not answer, or an empty string.
    """

    width: float
    max_width: float = MAX_WIDTH
    is_grasped: bool = False
    is_moving: bool = False
    age: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class GripperResult:
    """How a command ended.

    Attributes:
        outcome: In one word.
        width: At its end [m].
        text: In a sentence.
    """

    outcome: Outcome
    width: float
    text: str

    @property
    def succeeded(self) -> bool:
        """Whether the command did what it was to do."""
        return self.outcome is Outcome.SUCCEEDED


class GripperMotion:
    """A command that has begun.

    Args:
        command: The command.
        look: Returns the result, or None while there is none.
        wait: Waits for a condition, as :meth:`multipanda_py.cell.Cell.wait` does.
    """

    def __init__(
        self,
        command: GripperCommand,
        look: Callable[[], GripperResult | None],
        wait: Callable[[Callable[[], bool], float, str], None],
    ) -> None:
        self.command, self._look, self._wait = command, look, wait
        self._result: GripperResult | None = None

    @property
    def result(self) -> GripperResult | None:
        """How it ended, or None while it goes on. Never waits."""
        if self._result is None:
            self._result = self._look()
        return self._result

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.result is not None

    def end(self, result: GripperResult) -> None:
        """Settle how it ended, if that is not known yet."""
        self._result = self.result or result

    def wait(self, timeout: float = 10.0) -> GripperResult:
        """Wait for the end.

        Args:
            timeout: World time for an inline cell, else wall time [s].

        Raises:
            LoopTimeout: If it has not ended by then; it goes on.
        """
        self._wait(lambda: self.done, timeout, f"the end of {self.command}")
        result = self.result
        return result if result is not None else GripperResult(Outcome.MOVING, 0.0, "moving")


class Gripper(ABC):
    """The gripper of one arm. Methods may be called from any thread and do not wait.

    Args:
        arm: Name of its arm, for messages.
        description: What it can do.

    Attributes:
        silence: Function that returns the reason why the loop stands still, and an empty string
            while it runs. While it stands still, only a stop can start.
    """

    silence: Callable[[], str] = staticmethod(lambda: "")

    def __init__(self, arm: str, description: ParallelGripper = FRANKA_HAND) -> None:
        self.arm, self.description = arm, description

    @abstractmethod
    def state(self) -> GripperState:
        """Return what was measured last."""

    @abstractmethod
    def start(self, command: GripperCommand) -> GripperMotion:
        """Begin a checked command; what goes on is aborted."""

    def close(self) -> None:
        """Let go of the gripper, which stays as it is; safe to call twice."""

    def homing(self) -> GripperMotion:
        """Close and open the fingers; a real hand learns its largest width that way.

        Raises:
            TargetRejected: If the loop stands still.
        """
        return self._begin(GripperCommand(Action.HOMING))

    def move(self, width: float, speed: float = 0.1) -> GripperMotion:
        """Move the fingers to a width, without any say about force.

        Args:
            width: [m]
            speed: Of the width [m/s].

        Raises:
            TargetRejected: If a value cannot be executed, or the loop stands still.
        """
        return self._begin(
            GripperCommand(
                Action.MOVE,
                self._checked_width(width, self.description.min_width),
                self._checked_speed(speed),
            )
        )

    def grasp(
        self,
        width: float,
        speed: float = 0.1,
        force: float = 20.0,
        epsilon_inner: float = EPSILON,
        epsilon_outer: float = EPSILON,
    ) -> GripperMotion:
        r"""Close the fingers until an object stops them, and keep pressing.

        It succeeds if the final width :math:`w` obeys
        :math:`width - \epsilon_{inner} \le w \le width + \epsilon_{outer}`.

        Args:
            width: Of the object [m].
            speed: Of the width [m/s].
            force: With which each finger presses [N].
            epsilon_inner: How much narrower the object may be [m].
            epsilon_outer: How much wider [m].

        Raises:
            TargetRejected: If a value cannot be executed, or the loop stands still.
        """
        most = self.description
        return self._begin(
            GripperCommand(
                Action.GRASP,
                self._checked_width(width),
                self._checked_speed(speed),
                checked(self.arm, "force", force, most.most_force, "N", positive=True),
                checked(self.arm, "epsilon_inner", epsilon_inner, most.max_width, "m"),
                checked(self.arm, "epsilon_outer", epsilon_outer, most.max_width, "m"),
            )
        )

    def stop(self) -> GripperMotion:
        """Stop the fingers where they are; an object that is held stays held."""
        return self.start(GripperCommand(Action.STOP))

    def _begin(self, command: GripperCommand) -> GripperMotion:
        if reason := self.silence():
            raise TargetRejected(f"gripper of {self.arm}: {reason}")
        return self.start(command)

    def _checked_width(self, width: float, least: float = 0.0) -> float:
        return checked(self.arm, "width", width, self.state().max_width, "m", least=least)

    def _checked_speed(self, speed: float) -> float:
        return checked(self.arm, "speed", speed, self.description.speed, "m/s", positive=True)


def checked(
    arm: str,
    name: str,
    value: float,
    most: float,
    unit: str,
    *,
    least: float = 0.0,
    positive: bool = False,
) -> float:
    """Return a value that a gripper can execute.

    Raises:
        TargetRejected: If it is no number, too small, too large, or zero where it must not be.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (least <= number <= most) or (positive and number == 0.0):
        low = "(0" if positive else f"[{least:g}"
        raise TargetRejected(
            f"gripper of {arm}: {name}: got {value!r:.40}, allowed {low}, {most:g}] {unit}"
        )
    return number
