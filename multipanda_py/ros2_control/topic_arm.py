# SPDX-License-Identifier: Apache-2.0
"""All that the backend keeps of one arm that ROS 2 drives."""

from __future__ import annotations

import time
from collections.abc import Sequence

from multipanda_py.drivers.link import DriverLink
from multipanda_py.drivers.watch import Fault
from multipanda_py.exceptions import BackendError
from multipanda_py.robots import ArmDescription
from multipanda_py.ros2_control.driver_settings import changed_settings, driver_settings
from multipanda_py.ros2_control.settings import Ros2ControlSettings
from multipanda_py.state import ArmState

DRIVER = "multipanda_py.ros2_control.driver"
ANSWER_TIMEOUT = 3.0
"""For a driver to take settings [s]."""


class TopicArm:
    """One arm: its driver, and what that has been told.

    Args:
        state: Of the arm.
        description: What the arm is.
        settings: What the cell file says about it.
        cpus: Cores that its driver may use.

    Attributes:
        settings: What the driver has been told.
        link: To its driver.

    Thread: control, once it runs.
    """

    def __init__(
        self,
        state: ArmState,
        description: ArmDescription,
        settings: Ros2ControlSettings,
        cpus: Sequence[int],
    ) -> None:
        self._state, self._description = state, description
        self._told = driver_settings(settings, description, cpus)
        self.settings = settings
        self._asked: Ros2ControlSettings | None = None
        self._deadline = 0.0
        self.link = DriverLink(DRIVER, state, self._told)

    def poll(self) -> list[Fault]:
        """Return kinds and sentences of what the driver has reported since."""
        return self.link.poll(_no_model)

    def recover(self) -> None:
        """Have the driver take up the arm again, or start a new driver if it is gone."""
        self.link.recover()

    def configure(self, settings: Ros2ControlSettings) -> None:
        """Tell the driver another load or damping; it goes on meanwhile.

        Raises:
            BackendError: If there is no driver to tell.
        """
        if not self.link.is_alive:
            raise BackendError("its driver is not running; recover the arm first")
        self._asked = settings
        self._deadline = time.monotonic() + ANSWER_TIMEOUT
        self.link.watch.answers.clear()
        self.link.watch.tell(changed_settings(self._told, settings, self._description))

    def settings_answer(self) -> str | None:
        """Return None while there is no answer, then an empty string or why not."""
        answers = self.link.watch.answers
        if self._asked is None:
            return None
        if answers:
            answers.clear()
            self.settings, self._asked = self._asked, None
            return ""
        if self.link.is_alive and time.monotonic() < self._deadline:
            return None
        self._asked = None
        return f"{self._state.name}: its driver has not answered; recover the arm first"


def _no_model(_found: object) -> str:
    """Nothing is known of the other side's model."""
    return ""
