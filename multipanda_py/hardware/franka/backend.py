# SPDX-License-Identifier: Apache-2.0
"""Real arms: one driver process each, woken by their states."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import ArmConfig
from multipanda_py.hardware.driver.driven_backend import DrivenBackend
from multipanda_py.hardware.driver.loop_side import DriverLink
from multipanda_py.hardware.driver.memory import POSITIONS, TORQUES, VELOCITIES
from multipanda_py.hardware.driver.watch import Fault
from multipanda_py.hardware.franka.configure import changed_settings, driver_settings
from multipanda_py.hardware.franka.driver_settings import DriverSettings
from multipanda_py.hardware.franka.gripper import FrankaGripper
from multipanda_py.hardware.franka.model_check import Difference, ModelCheck, complaint
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.robots import ArmDescription
from multipanda_py.state import INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig


REST = 0.02
"""Speed of a joint below which an arm rests [rad/s]."""
REST_TIMEOUT = 2.0
"""For an arm that brakes to come to rest [s]."""
MOTION_TIMEOUT = 3.0
"""For a motion to end, and for the next one to start [s]."""
ANSWER_TIMEOUT = 6.0
"""For a robot to take settings, or for its driver to be found stuck and killed [s]."""

_Step = Callable[[], "str | None"]


class Reconfiguration:
    """End the motion, tell the robot, start the next motion: one step at a time.

    A robot takes settings only while no motion runs. That no motion is about to start is certain
    when a state has come that was sent after the driver was told to start none.

    Args:
        link: The arm's driver.
        dq: Live joint velocities of the arm, (7,) [rad/s].
        settings: What to tell.

    Attributes:
        recovers: Whether the arm is to be recovered afterwards; somebody has asked meanwhile.

    Thread: control.
    """

    def __init__(self, link: DriverLink, dq: Vector, settings: DriverSettings) -> None:
        self._link, self._dq, self._settings = link, dq, settings
        self._continues = self._faulted = False
        self._answer = ""
        self._seen = 0
        self.recovers = False
        self._go_on(self._rest, REST_TIMEOUT)

    def note_fault(self) -> None:
        """Do not wait for a motion: after a fault none starts by itself. Called when one comes."""
        self._faulted = True

    def progress(self) -> str | None:
        """Go on as far as possible.

        Returns:
            None as long as there is more to do, then an empty string if the robot has taken the
            settings, or why not.
        """
        return self._step()

    def _go_on(self, step: _Step, timeout: float) -> None:
        self._step = step
        self._deadline = time.monotonic() + timeout

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _rest(self) -> str | None:
        """Wait for an arm that brakes."""
        link = self._link
        if not link.is_alive:
            return "its driver is not running; recover the arm first"
        speed = float(np.abs(self._dq).max())
        if link.executing and speed > REST:
            if not self._is_late():
                return None
            return f"the arm still moves: got {speed:.3f} rad/s, allowed {REST:g} rad/s"
        self._continues = link.executing
        self._seen = link.suspend()
        self._go_on(self._end_motion, MOTION_TIMEOUT)
        return None

    def _end_motion(self) -> str | None:
        link = self._link
        self._continues |= link.executing
        if not link.is_alive:
            return self._finish("its driver has gone before it was told; recover the arm first")
        if self._is_late():
            return self._finish(f"its motion has not ended within {MOTION_TIMEOUT:g} s")
        if link.executing or link.number <= self._seen:
            return None
        link.watch.answers.clear()
        link.watch.tell(self._settings)
        self._go_on(self._listen, ANSWER_TIMEOUT)
        return None

    def _listen(self) -> str | None:
        link = self._link
        if link.watch.answers:
            outcome, text = link.watch.answers.pop()
            return self._finish("" if outcome == "applied" else text)
        if not link.is_alive or self._is_late():
            return self._finish("its driver has not answered; recover the arm first")
        return None

    def _finish(self, answer: str) -> str | None:
        """Let torques be executed again, and wait until they are, if they were before."""
        self._answer = answer
        if not self._faulted:
            self._link.resume()
        self._go_on(self._start_motion, MOTION_TIMEOUT)
        return self._start_motion()

    def _start_motion(self) -> str | None:
        link = self._link
        waits = self._continues and not self._faulted and link.is_alive and not self._is_late()
        return None if waits and not link.executing else self._answer


DRIVER = "multipanda_py.hardware.franka.driver"


class RealArm:
    """One arm: its driver, its robot's settings, and how well our model fits.

    Args:
        state: Of the arm.
        description: What the arm is.
        robot_ip: Address of its robot.
        settings: What the cell file says about it.
        cpus: Cores that its driver may use.
        warn: Is told what its user should know, in sentences.

    Attributes:
        settings: What the robot has been told.
        link: To its driver.
        differences: Of our model from the robot's own; empty before it has connected.

    Thread: control, once it runs.
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
        self.settings = self._asked = settings
        self._at_start = driver_settings(robot_ip, settings, description, cpus)
        self._model_check = ModelCheck(description)
        self._change: Reconfiguration | None = None
        self.differences: list[Difference] = []
        self.link = DriverLink(DRIVER, state, self._at_start)

    def check(self, found: dict[str, Any]) -> str:
        """Compare models; return why the arm must not be used, or nothing."""
        self.differences = self._model_check.compare(self.settings, found)
        text = complaint(self.differences)
        if not text or self.settings.model_check == "off":
            return ""
        text = f"robot {self._robot_ip}: {text}"
        if self.settings.model_check == "refuse":
            return text
        self._warn(f"arm {self._state.name}: {text}")
        return ""

    def poll(self) -> list[Fault]:
        """Return kinds and sentences of what driver and robot have reported since."""
        # Handed over anew each time, for what refers to itself is freed late, or never without gc.
        found = self.link.poll(self.check)
        if found and self._change is not None:
            self._change.note_fault()
        return found

    def recover(self) -> None:
        """Have the driver recover its robot, or start a new driver if it is gone."""
        if self._change is None:
            self.link.recover()
        else:
            self._change.recovers = True

    def configure(self, settings: FrankaSettings) -> None:
        """Begin to tell the robot other settings; its motion ends for that, and starts again.

        What is the driver's or the loop's own (``answer_budget``, ``priority``, the model check)
        stays as it is.
        """
        told = changed_settings(self._at_start, settings, self._description)
        self._asked = settings
        self._change = Reconfiguration(self.link, self._state.dq, told)

    def settings_answer(self) -> str | None:
        """Go on with what :meth:`configure` has begun.

        Returns:
            None while there is more to do or nothing was asked, then an empty string if the
            robot has taken the settings, or why not.
        """
        change = self._change
        reason = None if change is None else change.progress()
        if change is None or reason is None:
            return None
        self._change = None
        if not reason:
            self.settings = self._asked
        if change.recovers:
            self.link.recover()
        return f"{self._state.name}: robot {self._robot_ip}: {reason}" if reason else ""


RATE = 1000.0
"""Of the robots' states [Hz]."""


def check_real_arms(config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong: real arms need an address each, and are FR3s that set the pace."""
    owner: dict[str, str] = {}
    for name in arms:
        arm = config.arms[name]
        if not arm.robot_ip:
            yield f"arms.{name}.robot_ip: missing; backend franka needs the address"
        elif arm.robot_ip in owner:
            yield f"arms.{name}.robot_ip: got {arm.robot_ip}, which arm {owner[arm.robot_ip]} has"
        owner[arm.robot_ip] = name
        if arm.model != "fr3":
            got = f"{arm.robot.name!r}{'' if isinstance(arm.model, str) else ' of files'}"
            yield f"arms.{name}.model: got {got}, allowed fr3 for backend franka"
        if not isinstance(arm.hand, bool):
            yield f"arms.{name}.hand: got files, allowed true or false for backend franka"
        if not arm.compensates_gravity:
            yield (
                f"arms.{name}.compensates_gravity: got false, allowed true for backend franka: "
                "the robot does it"
            )
        if config.cell.rate != RATE:
            yield f"cell.rate: got {config.cell.rate:g} Hz, allowed 1000 with backend franka"


class Franka(DrivenBackend[FrankaSettings]):
    """Exchange states and torques with real FR3 arms through their drivers.

    Attributes:
        warnings: What the machine refused, and where a robot's model differs, as sentences.
    """

    Settings = FrankaSettings
    interfaces = INTERFACES
    rotors_in_torques = False

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
        """Check that arms have an address each, and are FR3s that set the pace."""
        return check_real_arms(config, arms)

    @classmethod
    def make_gripper(
        cls,
        arm: str,
        config: ArmConfig,
        publish: Callable[[float, bool], None],
        check: Callable[[], None],
    ) -> FrankaGripper:
        """Start the process that speaks with an arm's hand; the cell must run."""
        check()
        return FrankaGripper(arm, config.robot_ip, publish, check)

    @classmethod
    def describe_silence(cls, arms: Sequence[str]) -> str:
        """Say what drivers have done."""
        return (
            f"the drivers of {', '.join(arms)} have brought their torques to zero and ended the "
            "motions; the robots keep their posture, recover them when the loop runs"
        )

    def make_arm(
        self, index: int, state: ArmState, description: ArmDescription, cpus: Sequence[int]
    ) -> RealArm:
        """Return the arm at its robot's address."""
        address = self.config.arms[description.name].robot_ip
        return RealArm(state, description, address, self.settings[index], cpus, self._warn)

    def engage(self, arm: int, interface: str) -> None:
        """Have a driver end its motion, and begin one in the FCI's mode for the interface."""
        kinds = dict(zip(INTERFACES, (TORQUES, POSITIONS, VELOCITIES)))
        self.real_arms[arm].link.engage(kinds[interface])
