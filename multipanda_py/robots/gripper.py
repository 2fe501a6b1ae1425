# SPDX-License-Identifier: Apache-2.0
"""Common interface of simulated and real grippers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from multipanda_py.exceptions import TargetRejected
from multipanda_py.robots.models import FRANKA_HAND
from multipanda_py.robots.parallel_gripper import ParallelGripper

RECORD_SIZE = 6
"""Number of floats of a command: action, width [m], speed [m/s], force [N], two tolerances [m]."""


class Action(IntEnum):
    """Action of a gripper."""

    HOMING = 1
    MOVE = 2
    GRASP = 3
    STOP = 4
    MEASURED = 5
    """Not a command, but a measurement of a real gripper for the cycle record."""


class Outcome(IntEnum):
    """Outcome of a gripper command; ``MOVING`` until the command ends."""

    MOVING = 0
    SUCCEEDED = 1
    UNSUCCESSFUL = 2
    """The fingers rest at a wrong width: they are blocked or missed the object."""
    ABORTED = 3
    """A newer command or a stop ended the command."""
    FAILED = 4
    """Not executed: the gripper rejected it or is disconnected."""


MAX_WIDTH = FRANKA_HAND.max_width
"""Maximum width of a Franka Hand [m]; homing measures that of a real one."""
MAX_SPEED = FRANKA_HAND.speed
"""Maximum speed of a Franka Hand [m/s]."""
DEFAULT_EPSILON = 0.005
"""Default tolerance of a grasp, as in libfranka [m]."""


@dataclass(frozen=True)
class GripperCommand:
    """Validated command; values that an action does not use are zero.

    Attributes:
        action: Action of the gripper.
        width: Target width, or width of the object [m].
        speed: Speed of the width [m/s].
        force: Force of a grasp [N].
        epsilon_inner: Allowed deviation of the grasped object below ``width`` [m].
        epsilon_outer: Allowed deviation above ``width`` [m].
    """

    action: Action
    width: float = 0.0
    speed: float = 0.0
    force: float = 0.0
    epsilon_inner: float = 0.0
    epsilon_outer: float = 0.0

    @property
    def record(self) -> tuple[float, ...]:
        """Action, width, speed, force and both tolerances as floats, for the shared memory."""
        return (float(self.action), self.width, self.speed, self.force,
                self.epsilon_inner, self.epsilon_outer)  # fmt: skip

    def holds(self, width: float) -> bool:
        """Return True if a grasp that ends at ``width`` holds the expected object."""
        return self.width - self.epsilon_inner <= width <= self.width + self.epsilon_outer

    def __str__(self) -> str:
        if self.action is Action.MOVE:
            return f"move to {self.width:.4f} m"
        if self.action is Action.GRASP:
            return f"grasp of {self.width:.4f} m with {self.force:g} N"
        return self.action.name.lower()


@dataclass(frozen=True)
class GripperState:
    """State of a gripper.

    Attributes:
        width: Width between the fingers [m].
        max_width: Width with open fingers [m].
        is_grasped: True if the last grasp holds its object.
        is_moving: True while a command is executed.
        age: Time since the width was measured [s]. It grows while a real gripper moves.
        problem: Reason why a real gripper does not respond; empty if it responds.
    """

    width: float
    max_width: float = MAX_WIDTH
    is_grasped: bool = False
    is_moving: bool = False
    age: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class GripperResult:
    """Result of a command.

    Attributes:
        outcome: Kind of result.
        width: Width at the end [m].
        text: Description of the result.
    """

    outcome: Outcome
    width: float
    text: str

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED


class GripperMotion:
    """Running or completed command of a gripper.

    Args:
        command: Command that the gripper executes.
        look: Function that returns the result, or None while the command runs.
        wait: Function that waits for a condition, such as :meth:`multipanda_py.cell.Cell.wait`.
    """

    def __init__(
        self,
        command: GripperCommand,
        look: Callable[[], GripperResult | None],
        wait: Callable[[Callable[[], bool], float, str], None],
    ) -> None:
        self.command, self._poll, self._wait = command, look, wait
        self._result: GripperResult | None = None

    @property
    def result(self) -> GripperResult | None:
        """Result, or None while the command runs."""
        if self._result is None:
            self._result = self._poll()
        return self._result

    @property
    def done(self) -> bool:
        return self.result is not None

    def end(self, result: GripperResult) -> None:
        """End the command with a result, unless it has one already."""
        self._result = self.result or result

    def wait(self, timeout: float = 10.0) -> GripperResult:
        """Wait for the end of the command.

        Args:
            timeout: Maximum time [s], in simulated time for an inline cell, otherwise real time.

        Raises:
            LoopTimeout: The command has not ended in time. It still continues.
        """
        self._wait(lambda: self.done, timeout, f"the end of {self.command}")
        result = self.result
        return result if result is not None else GripperResult(Outcome.MOVING, 0.0, "moving")


class Gripper(ABC):
    """Gripper of one arm. Methods may be called from any thread and do not wait.

    Args:
        arm: Name of the arm, for messages.
        description: Properties of the gripper.

    Attributes:
        stall_reason: Function that returns the reason why the control loop does not run; empty
            while it runs. Without a running loop, only :meth:`stop` is accepted.
    """

    stall_reason: Callable[[], str] = staticmethod(lambda: "")

    def __init__(self, arm: str, description: ParallelGripper = FRANKA_HAND) -> None:
        self.arm, self.description = arm, description

    @abstractmethod
    def state(self) -> GripperState:
        """Return the last measured state."""

    @abstractmethod
    def start(self, command: GripperCommand) -> GripperMotion:
        """Start a validated command, and abort the running one."""

    def close(self) -> None:
        """Disconnect from the gripper; safe to call twice.

        The fingers stay where they are.
        """

    def homing(self) -> GripperMotion:
        """Close and open the fingers, by which a real gripper measures its maximum width.

        Raises:
            TargetRejected: The loop does not run.
        """
        return self._start(GripperCommand(Action.HOMING))

    def move(self, width: float, speed: float = 0.1) -> GripperMotion:
        """Move the fingers to a width, without force control.

        Args:
            width: Target width [m].
            speed: Speed of the width [m/s].

        Raises:
            TargetRejected: A value is out of range, or the loop does not run.
        """
        return self._start(
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
        epsilon_inner: float = DEFAULT_EPSILON,
        epsilon_outer: float = DEFAULT_EPSILON,
    ) -> GripperMotion:
        r"""Close the fingers until an object stops them, and keep the force.

        The grasp succeeds if the final width :math:`w` obeys
        :math:`width - \epsilon_{inner} \le w \le width + \epsilon_{outer}`.

        Args:
            width: Width of the object [m].
            speed: Speed of the width [m/s].
            force: Force of each finger [N].
            epsilon_inner: Allowed deviation of the object below ``width`` [m].
            epsilon_outer: Allowed deviation above ``width`` [m].

        Raises:
            TargetRejected: A value is out of range, or the loop does not run.
        """
        max_value = self.description
        return self._start(
            GripperCommand(
                Action.GRASP,
                self._checked_width(width),
                self._checked_speed(speed),
                checked(self.arm, "force", force, max_value.max_force, "N", positive=True),
                checked(self.arm, "epsilon_inner", epsilon_inner, max_value.max_width, "m"),
                checked(self.arm, "epsilon_outer", epsilon_outer, max_value.max_width, "m"),
            )
        )

    def stop(self) -> GripperMotion:
        """Stop the fingers at their present width; a grasped object stays grasped."""
        return self.start(GripperCommand(Action.STOP))

    def _start(self, command: GripperCommand) -> GripperMotion:
        if reason := self.stall_reason():
            raise TargetRejected(f"gripper of {self.arm}: {reason}")
        return self.start(command)

    def _checked_width(self, width: float, min_value: float = 0.0) -> float:
        return checked(self.arm, "width", width, self.state().max_width, "m", min_value=min_value)

    def _checked_speed(self, speed: float) -> float:
        return checked(self.arm, "speed", speed, self.description.speed, "m/s", positive=True)


def checked(
    arm: str,
    name: str,
    value: float,
    max_value: float,
    unit: str,
    *,
    min_value: float = 0.0,
    positive: bool = False,
) -> float:
    """Return a value as float if it is a number in the allowed range.

    Args:
        arm: Name of the arm, for the message.
        name: Name of the value, for the message.
        value: Value to check.
        max_value: Maximum of the value, in ``unit``.
        unit: Unit of the value, for the message.
        min_value: Minimum of the value, in ``unit``.
        positive: True to reject zero.

    Raises:
        TargetRejected: The value is not a number, or out of range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (min_value <= number <= max_value) or (positive and number == 0.0):
        low = "(0" if positive and min_value == 0.0 else f"[{min_value:g}"
        raise TargetRejected(
            f"gripper of {arm}: {name}: got {value!r:.40}, allowed {low}, {max_value:g}] {unit}"
        )
    return number
