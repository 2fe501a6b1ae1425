# SPDX-License-Identifier: Apache-2.0
"""Periodic loop that reads input devices and sends targets to their arms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from multipanda_py.apps.teleoperation.source import (
    MAX_SPEED,
    TOOL_FRAME,
    Clutch,
    DeviceCommand,
    ExternalWrench,
    ForceFeedbackSource,
    GripperRequest,
    Source,
)
from multipanda_py.cell import Cell
from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    TargetRejected,
    UnknownName,
    in_decimals,
)
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

MAX_LEAD = (0.1, 0.5)
"""Maximum distance of a target from the tool [m, rad]."""
RESUME_TOLERANCE = (0.03, 0.15)
"""Distance from the last target up to which a motion continues from there [m, rad]; the tool of a
compliant arm is displaced under load."""


class GuidedArm:
    """Arm that follows an input device through a clutch.

    After a hold, the clutch must be opened and closed before the arm moves.

    Args:
        cell: A started cell.
        arm: Name of the arm.
        clutch: Clutch of this arm.
        report: Callback for messages to the user.

    Attributes:
        clutch: Clutch of the arm.
        last_target: Last target sent to the arm; None without one and after a rejection.

    Thread: one.
    """

    def __init__(
        self, cell: Cell, arm: str, clutch: Clutch, report: Callable[[str], None]
    ) -> None:
        self._cell, self._arm, self.clutch, self._log = cell, arm, clutch, report
        self.last_target: Pose | None = None
        self._is_refused = False
        cell.frames.base_of(arm)

    def external_wrench(self, seconds: float) -> ExternalWrench:
        """Return the external wrench of the arm in the axes of the device's frame.

        Args:
            seconds: Time since the previous call [s], which the result contains.
        """
        clutch, wrench = self.clutch, self._cell.state(self._arm).wrench_ext_in_base
        along = (wrench.reshape(2, 3) @ clutch.axes).reshape(6)
        return ExternalWrench(along, clutch.is_closed, clutch.scale, seconds)

    def apply_command(self, command: DeviceCommand, seconds: float, passed: float) -> None:
        """Execute a command of the device, and send the resulting target to the arm.

        Args:
            command: Command of the device.
            seconds: Time for which the twist of the command moves the target [s].
            passed: Time since the previous command, to compute the speed of the device [s].
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
        self._send_last_target()

    def hold(self, reason: str) -> None:
        """Let the arm hold for a reason until the operator has opened and closed the clutch."""
        self.clutch.open()
        if not self._is_refused:
            self._is_refused = True
            self._log(f"{self._arm} holds: {reason}; open and close the clutch to continue")

    def _move(self, command: DeviceCommand, seconds: float, passed: float) -> None:
        clutch, tool = self.clutch, self._cell.pose(self._arm)
        if not clutch.is_closed:
            clutch.close(self._start(tool))
        axes = self._axes_in_base(command.frame)
        if command.pose is not None:
            target = clutch.follow(command.pose, passed, axes)
        elif command.twist is not None:
            target = clutch.move(_checked(command.twist), seconds, axes)
        else:
            raise TargetRejected(
                "command: the clutch is closed, but there is neither a twist nor a pose"
            )
        target = target.clipped(tool.position, tool.rotation, *MAX_LEAD)
        if command.pose is None:
            clutch.set_target(target)
        self.last_target = target

    def _start(self, tool: Pose) -> Pose:
        if self.last_target is not None:
            step, angle = self.last_target.distance(tool)
            if step <= RESUME_TOLERANCE[0] and angle <= RESUME_TOLERANCE[1]:
                return self.last_target
        return tool

    def _axes_in_base(self, frame: str) -> Matrix:
        if frame == TOOL_FRAME:
            return (self.clutch.target or self._cell.pose(self._arm)).rotation
        return self._cell.frames.base_from(frame, self._arm).rotation

    def _send_last_target(self) -> None:
        # Every tick repeats the target, because a stream of targets times out.
        if self.last_target is None:
            return
        try:
            self._cell.set_target(self._arm, self.last_target)
        except TargetRejected as error:
            self.last_target = None
            self.hold(str(error))

    def _move_hand(self, request: str) -> None:
        try:
            hand = self._cell.gripper(self._arm)
            if request == "open":
                hand.move(hand.state().max_width)
            else:  # The grasp accepts an object of any width.
                hand.grasp(0.0, epsilon_outer=hand.description.max_width)
        except MultipandaError as error:
            self._log(f"{self._arm}: {error}")


def _checked(twist: object) -> Vector:
    try:
        numbers = np.array(twist, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.full(1, np.nan)
    if numbers.shape != (6,) or not np.isfinite(numbers).all():
        raise TargetRejected(f"twist: got {twist!r:.80}, allowed 6 finite numbers")
    speed, angular_speed = (float(np.linalg.norm(part)) for part in (numbers[:3], numbers[3:]))
    if speed > MAX_SPEED[0] or angular_speed > MAX_SPEED[1]:
        raise TargetRejected(
            f"twist: got {in_decimals(speed, 2)} m/s and {in_decimals(angular_speed, 2)} rad/s, "
            f"allowed up to {MAX_SPEED[0]:g} m/s and {MAX_SPEED[1]:g} rad/s"
        )
    return numbers


def checked_commands(answer: Any, arms: Sequence[str]) -> dict[str, DeviceCommand]:
    """Check the result of :meth:`.Source.read`, and return the commands by arm.

    An invalid command is replaced by one whose ``problem`` has the reason.

    Raises:
        TargetRejected: The result is not a mapping, or has a command for an arm not in ``arms``.
    """
    if not isinstance(answer, Mapping):
        raise TargetRejected(f"got {answer!r:.80}, allowed commands by arm, as a mapping")
    if unknown := [arm for arm in answer if arm not in arms]:
        raise TargetRejected(f"got a command for {unknown[0]!r:.80}, allowed {', '.join(arms)}")
    return {arm: _command(command) for arm, command in answer.items()}


def _command(command: Any) -> DeviceCommand:
    if not isinstance(command, DeviceCommand):
        return DeviceCommand(problem=f"got {command!r:.80}, allowed a DeviceCommand")
    gripper_requests = get_args(GripperRequest)
    rules = (
        ("is_engaged", isinstance(command.is_engaged, bool | np.bool_), "True or False"),
        ("pose", command.pose is None or isinstance(command.pose, Pose), "a Pose or None"),
        ("frame", isinstance(command.frame, str), "a name"),
        ("gripper", command.gripper in gripper_requests, "'', 'open' or 'close'"),
        ("problem", isinstance(command.problem, str), "a sentence"),
    )
    for name, is_right, allowed in rules:
        if not is_right:
            got = getattr(command, name)
            return DeviceCommand(problem=f"{name}: got {got!r:.80}, allowed {allowed}")
    return command


ALLOWED_RATES = (20.0, 100.0)
"""Allowed rates [Hz]. Slower targets are noticeable; faster ones add nothing at 1 kHz control."""
MAX_WAIT = 0.25
"""Maximum duration of reading a source [s]; a slower source counts as lost in that tick."""
_AT_REST = DeviceCommand()


class Teleoperator:
    """Teleoperation of the arms of a cell with input devices.

    Args:
        cell: A started cell whose active controllets take poses.
        sources: Input devices, each for other arms; the caller closes them.
        rate: Rate of targets [Hz].
        scale: Translation of the tool per translation of the device.
        rotation_scale: Rotation of the tool per rotation of the device.
        report: Callback for messages to the user.
        clock: Function that returns the time [s].
        controllets: Controllets to activate again after an interruption, once all clutches are
            open and no arm has a fault; none by default. Leave it empty if other clients may stop
            the arms.

    Attributes:
        arms: Arms with their clutches, by name.

    Raises:
        ConfigurationError: Rate or scale is out of range, no source has an arm, or an arm has two
            sources.
        UnknownName: A source has an arm that the cell does not have.

    Thread: one.
    """

    def __init__(
        self,
        cell: Cell,
        sources: Sequence[Source],
        rate: float = 50.0,
        scale: float = 1.0,
        rotation_scale: float = 1.0,
        report: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        controllets: Sequence[str] = (),
    ) -> None:
        if not ALLOWED_RATES[0] <= rate <= ALLOWED_RATES[1]:
            raise ConfigurationError(
                f"rate: got {rate:g}, allowed [{ALLOWED_RATES[0]:g}, {ALLOWED_RATES[1]:g}] Hz"
            )
        for name, value in (("scale", scale), ("rotation_scale", rotation_scale)):
            if not 0.0 < value <= 10.0:
                raise ConfigurationError(f"{name}: got {value:g}, allowed (0, 10]")
        arms = [arm for source in sources for arm in source.arms]
        if not arms:
            raise ConfigurationError("sources: no source has an arm. Add a source with an arm.")
        for arm in arms:
            if arm not in cell.arms:
                raise UnknownName("arm", arm, cell.arms)
            if arms.count(arm) > 1:
                raise ConfigurationError(f"sources: {arm} has two sources, allowed one")
        self._cell, self._sources, self._log, self._clock = cell, tuple(sources), report, clock
        self._period, self._command_times = 1.0 / rate, dict[str, float]()
        self._laws, self._loss_reason = tuple(controllets), ""
        self.arms = {
            arm: GuidedArm(cell, arm, Clutch(scale, rotation_scale), report) for arm in arms
        }

    def tick(self) -> None:
        """Read every input device once, and send the resulting targets to its arms.

        If a device fails or is too slow, its arms hold.
        """
        is_open = True
        for source in self._sources:
            began = self._clock()
            problem, commands = "", dict[str, DeviceCommand]()
            try:
                commands = checked_commands(source.read(), source.arms)
            except Exception as error:  # Arms of a faulty source hold.
                problem = f"{source.name}: {str(error) or type(error).__name__}"
            if (took := self._clock() - began) > MAX_WAIT:
                problem = problem or f"{source.name}: reading took {took:.2f} s"
            if problem:
                commands = {arm: DeviceCommand(problem=problem) for arm in source.arms}
            is_open = is_open and not any(one.is_engaged for one in commands.values())
            self._give(source, commands, began)
        if is_open and not set(self._cell.active).issuperset(self._laws):
            self._reactivate()

    def _reactivate(self) -> None:
        if any(self._cell.state(arm).fault for arm in self._cell.arms):
            return
        try:
            self._cell.switch(self._laws, strictness="auto")
        except MultipandaError as error:
            if str(error) != self._loss_reason:
                self._log(str(error))
            self._loss_reason = str(error)
        else:
            self._log(f"{', '.join(self._laws)} active again")
            self._loss_reason = ""

    def run(self, duration: float = math.inf) -> None:
        """Call :meth:`tick` periodically for a duration [s]; this also steps an inline cell.

        Raises:
            LoopError: The loop of the cell has ended.
        """
        is_inline = self._cell.config.cell.placement == "inline"
        cycles = max(1, round(self._period * self._cell.config.cell.rate))
        start = deadline = self._clock()
        while deadline < start + duration:
            self._cell.check()
            self.tick()
            if is_inline:
                self._cell.step(cycles)
            # Missed ticks are skipped, so that no burst of ticks follows a pause.
            deadline = max(deadline + self._period, self._clock())
            time.sleep(max(0.0, deadline - self._clock()))

    def _give(self, source: Source, commands: Mapping[str, DeviceCommand], now: float) -> None:
        for arm in source.arms:
            guided = self.arms[arm]
            passed = max(self._period, now - self._command_times.get(arm, now))
            self._command_times[arm] = now
            guided.apply_command(commands.get(arm, _AT_REST), self._period, passed)
            if isinstance(source, ForceFeedbackSource):
                try:
                    source.apply_wrench(arm, guided.external_wrench(self._period))
                except Exception as error:  # Teleoperation continues with all other sources.
                    guided.hold(f"{source.name}: {str(error) or type(error).__name__}")
