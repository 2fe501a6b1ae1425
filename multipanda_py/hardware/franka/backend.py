# SPDX-License-Identifier: Apache-2.0
"""Backend for real Franka arms, with one driver process per arm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.hardware.driver.driven_backend import DrivenBackend
from multipanda_py.hardware.driver.driver_process import Fault
from multipanda_py.hardware.driver.loop_side import LoopSide
from multipanda_py.hardware.driver.memory import POSITIONS, TORQUES, VELOCITIES
from multipanda_py.hardware.franka.gripper import FrankaGripper
from multipanda_py.hardware.franka.model_check import Difference, ModelCheck, difference_message
from multipanda_py.hardware.franka.robot_connection import DriverSettings
from multipanda_py.hardware.franka.settings import (
    FrankaSettings,
    changed_settings,
    driver_settings,
)
from multipanda_py.robots import ArmDescription
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig


REST_SPEED = 0.02
"""Joint speed up to which an arm counts as at rest [rad/s]."""
REST_TIMEOUT = 2.0
"""Timeout for a braking arm to come to rest [s]."""
MOTION_TIMEOUT = 3.0
"""Timeout for the end of a motion, and for the start of the next one [s]."""
ANSWER_TIMEOUT = 6.0
"""Timeout of the response to new settings [s]. It includes the time to detect and kill a hanging
driver."""

_Step = Callable[[], "str | None"]


class Reconfiguration:
    """Change of robot settings in steps: end the motion, send the settings, start the next motion.

    libfranka accepts settings only without a motion (a control session, even at rest).

    Args:
        link: Connection to the driver of the arm.
        dq: Live joint velocities, (7,) [rad/s]. The change begins when the arm is at rest.
        settings: New settings.

    Attributes:
        recovers: True to recover the arm after the change, because a recovery was requested
            meanwhile.

    Thread: control.
    """

    def __init__(self, link: LoopSide, dq: Vector, settings: DriverSettings) -> None:
        self._link, self._dq, self._settings = link, dq, settings
        self._continues = self._faulted = False
        self._answer = ""
        self._last_number = 0
        self.recovers = False
        self._start_step(self._rest, REST_TIMEOUT)

    def note_fault(self) -> None:
        """Record a fault of the arm, so that no motion starts after the change."""
        self._faulted = True

    def progress(self) -> str | None:
        """Execute the next step if possible; called in every cycle of the loop.

        Returns:
            None until the change is completed. Then an empty string if the settings apply,
            otherwise the reason why they do not.
        """
        return self._step()

    def _start_step(self, step: _Step, timeout: float) -> None:
        self._step = step
        self._deadline = time.monotonic() + timeout

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _rest(self) -> str | None:
        link = self._link
        if not link.is_alive:
            return "its driver is not running; recover the arm first"
        speed = float(np.abs(self._dq).max())
        if link.executing and speed > REST_SPEED:
            if not self._is_late():
                return None
            return (
                f"the arm still moves: got {speed:.3f} rad/s, allowed {REST_SPEED:g} rad/s. Wait "
                "until it is at rest"
            )
        self._continues = link.executing
        self._last_number = link.suspend()
        self._start_step(self._end_motion, MOTION_TIMEOUT)
        return None

    def _end_motion(self) -> str | None:
        link = self._link
        self._continues |= link.executing
        if not link.is_alive:
            return self._resume_motion("its driver ended before the change; recover the arm first")
        if self._is_late():
            return self._resume_motion(
                f"its motion has not ended within {MOTION_TIMEOUT:g} s, so the settings were not "
                "sent. Try again"
            )
        if link.executing or link.number <= self._last_number:
            return None
        link.watch.answers.clear()
        link.watch.send(self._settings)
        self._start_step(self._listen, ANSWER_TIMEOUT)
        return None

    def _listen(self) -> str | None:
        link = self._link
        if link.watch.answers:
            outcome, text = link.watch.answers.pop()
            return self._resume_motion("" if outcome == "applied" else text)
        if not link.is_alive or self._is_late():
            return self._resume_motion("its driver has not responded; recover the arm first")
        return None

    def _resume_motion(self, result: str) -> str | None:
        """Enable commands; return ``result``, or None until the arm executes them as before."""
        self._answer = result
        if not self._faulted:
            self._link.resume()
        self._start_step(self._start_motion, MOTION_TIMEOUT)
        return self._start_motion()

    def _start_motion(self) -> str | None:
        link = self._link
        waits = self._continues and not self._faulted and link.is_alive and not self._is_late()
        return None if waits and not link.executing else self._answer


DRIVER_MODULE = "multipanda_py.hardware.franka.driver"


class RealArm:
    """One real arm: its driver, the settings of its robot, and the check of its model.

    Args:
        state: State of the arm.
        description: Description of the arm.
        robot_ip: Address of its robot.
        settings: Settings from the cell file.
        cpus: Cores that its driver may use.
        warn: Function that receives warnings for the user.

    Attributes:
        settings: Settings of the robot.
        link: Link to its driver.
        differences: Differences between the model of this package and that of the robot; empty
            before the connection.

    Thread: control, once the loop runs.
    """

    def __init__(
        self,
        state: ArmState,
        description: ArmDescription,
        robot_ip: str,
        settings: FrankaSettings,
        cpus: Sequence[int],
        warn: Callable[[str], None],
    ) -> None:
        self._state, self._description, self._robot_ip = state, description, robot_ip
        self._warn = warn
        self.settings = self._requested_settings = settings
        self._at_start = driver_settings(robot_ip, settings, description, cpus)
        self._model_check = ModelCheck(description)
        self._change: Reconfiguration | None = None
        self.differences: list[Difference] = []
        self.link = LoopSide(DRIVER_MODULE, state, self._at_start)

    def check(self, measurements: dict[str, Any]) -> str:
        """Compare the robot's own model with that of this package.

        Args:
            measurements: Robot's model from :func:`.robot_connection.measure`.

        Returns:
            Reason why the arm must not be used, or an empty string.
        """
        self.differences = self._model_check.compare(self.settings, measurements)
        text = difference_message(self.differences)
        if not text or self.settings.model_check == "off":
            return ""
        text = f"robot {self._robot_ip}: {text}"
        if self.settings.model_check == "refuse":
            return text
        self._warn(f"arm {self._state.name}: {text}")
        return ""

    def poll(self) -> list[Fault]:
        """Return the new faults of driver and robot."""
        # The link does not store ``check``: arm and link would then refer to each other, and only
        # a garbage collection could free them.
        result = self.link.poll(self.check)
        if result and self._change is not None:
            self._change.note_fault()
        return result

    def recover(self) -> None:
        """Recover the robot through its driver, or start a new driver if the last one has ended.

        During a change of settings, the recovery waits for the end of the change.
        """
        if self._change is None:
            self.link.recover()
        else:
            self._change.recovers = True

    def configure(self, settings: FrankaSettings) -> None:
        """Start to change the settings of the robot, which executes no commands during the change.

        Only thresholds, impedances, load and stiffness frame change.
        """
        changed = changed_settings(self._at_start, settings, self._description)
        self._requested_settings = settings
        self._change = Reconfiguration(self.link, self._state.dq, changed)

    def settings_answer(self) -> str | None:
        """Continue the change that :meth:`configure` has started; return its result once.

        Returns:
            Empty string if the settings apply, otherwise the reason why they do not. None while
            the change is not completed, and after its result was returned.
        """
        change = self._change
        reason = None if change is None else change.progress()
        if change is None or reason is None:
            return None
        self._change = None
        if not reason:
            self.settings = self._requested_settings
        if change.recovers:
            self.link.recover()
        return f"{self._state.name}: robot {self._robot_ip}: {reason}" if reason else ""


STATE_RATE = 1000.0
"""Rate of the robots' states [Hz]."""


def check_real_arms(config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
    """Yield a message for each setting in the cell file that real Franka arms do not support.

    Args:
        config: Contents of the cell file.
        arms: Names of the arms with backend ``franka``.
    """
    owner: dict[str, str] = {}
    for name in arms:
        arm = config.arms[name]
        if not arm.robot_ip:
            yield f"arms.{name}.robot_ip: missing; backend franka needs the address"
        elif arm.robot_ip in owner:
            yield (
                f"arms.{name}.robot_ip: got {arm.robot_ip}, the address of arm "
                f"{owner[arm.robot_ip]}. Every arm needs its own robot"
            )
        owner[arm.robot_ip] = name
        if arm.model != "fr3":
            got = f"{arm.robot.name!r}{'' if isinstance(arm.model, str) else ' of model files'}"
            yield f"arms.{name}.model: got {got}, allowed fr3 for backend franka"
        if not isinstance(arm.gripper, bool):
            yield f"arms.{name}.gripper: got files, allowed true or false for backend franka"
        if not arm.compensates_gravity:
            yield (
                f"arms.{name}.compensates_gravity: got false, allowed true for backend franka: "
                "the robot compensates gravity"
            )
        if config.cell.rate != STATE_RATE:
            yield f"cell.rate: got {config.cell.rate:g} Hz, allowed 1000 Hz with backend franka"


class Franka(DrivenBackend[FrankaSettings]):
    """Backend that exchanges states and torques with real FR3 arms through their drivers.

    Attributes:
        warnings: Warnings about denied rights and about differences of a robot's model.
    """

    Settings = FrankaSettings
    interfaces = COMMAND_INTERFACES
    torques_include_rotors = False

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
        """Yield the messages of :func:`check_real_arms`."""
        return check_real_arms(config, arms)

    @classmethod
    def make_gripper(
        cls,
        arm: str,
        config: ArmConfig,
        publish: Callable[[float, bool], None],
        check: Callable[[], None],
    ) -> FrankaGripper:
        """Start the gripper process of an arm in a running cell.

        Args:
            arm: Name of the arm.
            config: Section of the arm in the cell file.
            publish: Callback with the width [m], and True if an object is held.
            check: Function that raises an error if the cell does not run.
        """
        check()
        return FrankaGripper(arm, config.robot_ip, publish, check)

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        """Return a sentence for users on the reaction of the drivers to a stalled loop."""
        return (
            f"the drivers of {', '.join(arms)} have brought their torques to zero and ended the "
            "motions; the robots hold their configuration. Recover them when the loop runs"
        )

    def make_arm(
        self, index: int, state: ArmState, description: ArmDescription, cpus: Sequence[int]
    ) -> RealArm:
        """Create the interface to a real arm, with the address from the cell file."""
        address = self.config.arms[description.name].robot_ip
        return RealArm(state, description, address, self.settings[index], cpus, self._warn)

    def switch_interface(self, arm: int, interface: str) -> None:
        """Let the driver of an arm end its motion, and start one with another command interface.

        Args:
            arm: Index of the arm in the cell.
            interface: New command interface, ``effort``, ``position`` or ``velocity``.
        """
        kinds = dict(zip(COMMAND_INTERFACES, (TORQUES, POSITIONS, VELOCITIES)))
        self.real_arms[arm].link.engage(kinds[interface])
