# SPDX-License-Identifier: Apache-2.0
"""All that the backend keeps of one real arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from multipanda_py.drivers.link import DriverLink
from multipanda_py.drivers.watch import Fault
from multipanda_py.franka.configure import changed_settings, driver_settings
from multipanda_py.franka.model_check import Difference, ModelCheck, complaint
from multipanda_py.franka.reconfiguration import Reconfiguration
from multipanda_py.franka.settings import FrankaSettings
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState

DRIVER = "multipanda_py.franka.driver"


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
