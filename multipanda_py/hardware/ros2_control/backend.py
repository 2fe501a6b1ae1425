# SPDX-License-Identifier: Apache-2.0
"""Backend for arms behind an external controller manager, with one driver process each."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import BackendError
from multipanda_py.hardware.driver.driven_backend import DrivenBackend
from multipanda_py.hardware.driver.driver_process import Fault
from multipanda_py.hardware.driver.loop_side import LoopSide
from multipanda_py.hardware.driver.memory import POSITIONS, TORQUES
from multipanda_py.hardware.ros2_control.settings import (
    EFFORT,
    Ros2ControlSettings,
    changed_settings,
    driver_settings,
)
from multipanda_py.robots import ArmDescription
from multipanda_py.state import COMMAND_INTERFACES, ArmState

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig


DRIVER_MODULE = "multipanda_py.hardware.ros2_control.driver"
ANSWER_TIMEOUT = 3.0
"""Timeout for a driver to accept settings [s]."""


class TopicArm:
    """One arm that is controlled over topics, with its driver and settings.

    Args:
        state: State of the arm.
        description: Description of the arm.
        settings: Settings from the cell file.
        cpus: Cores that its driver may use.

    Attributes:
        settings: Settings of the driver.
        link: Link to its driver.

    Thread: control, once the loop runs.
    """

    def __init__(
        self,
        state: ArmState,
        description: ArmDescription,
        settings: Ros2ControlSettings,
        cpus: Sequence[int],
    ) -> None:
        self._state, self._description = state, description
        self._sent_settings = driver_settings(settings, description, cpus)
        self.settings = settings
        self._requested_settings: Ros2ControlSettings | None = None
        self._deadline = 0.0
        self.link = LoopSide(DRIVER_MODULE, state, self._sent_settings)

    def poll(self) -> list[Fault]:
        """Return the new faults of the driver."""
        return self.link.poll(_accept_any_driver)

    def recover(self) -> None:
        """Clear the fault of the arm, or start a new driver if the last one has ended."""
        self.link.recover()

    def configure(self, settings: Ros2ControlSettings) -> None:
        """Send a new load or damping to the driver; the motion of the arm continues.

        Raises:
            BackendError: If no driver runs.
        """
        if not self.link.is_alive:
            raise BackendError("its driver is not running; recover the arm first")
        self._requested_settings = settings
        self._deadline = time.monotonic() + ANSWER_TIMEOUT
        self.link.watch.answers.clear()
        self.link.watch.send(changed_settings(self._sent_settings, settings, self._description))

    def settings_answer(self) -> str | None:
        """Return the result of :meth:`configure`, once.

        Returns:
            Empty string if the settings apply, otherwise the reason why they do not. None while
            the driver has not responded, and after the result was returned.
        """
        answers = self.link.watch.answers
        if self._requested_settings is None:
            return None
        if answers:
            answers.clear()
            self.settings, self._requested_settings = self._requested_settings, None
            return ""
        if self.link.is_alive and time.monotonic() < self._deadline:
            return None
        self._requested_settings = None
        return f"{self._state.name}: its driver has not responded; recover the arm first"


# The first response of these drivers contains no robot model to check.
def _accept_any_driver(_result: object) -> str:
    return ""


_TOPIC_NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*\Z")


def check_arms(config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
    """Yield messages about wrong rates, topics and joint names."""
    owner: dict[str, str] = {}
    for name in arms:
        arm = config.arms[name]
        settings, path = arm.settings, f"arms.{name}.ros2_control"
        if not isinstance(settings, Ros2ControlSettings):
            continue
        if settings.rate != config.cell.rate:
            yield (
                f"{path}.rate: got {settings.rate:g} Hz, allowed {config.cell.rate:g} Hz "
                "as in cell.rate, because the arm paces the loop"
            )
        for key in ("state_topic", "command_topic"):
            topic = getattr(settings, key)
            if not _TOPIC_NAME.match(topic):
                yield f"{path}.{key}: got {topic!r}, allowed a topic name"
        if settings.command_topic in owner:
            yield (
                f"{path}.command_topic: got {settings.command_topic}, the topic of arm "
                f"{owner[settings.command_topic]}. Every arm needs its own topic"
            )
        owner[settings.command_topic] = name
        names, n = settings.joint_names.split(), arm.robot.n_joints
        if names and (len(names) != n or len(set(names)) != n):
            yield (
                f"{path}.joint_names: got {len(set(names))} names in {settings.joint_names!r}, "
                f"allowed {n}, one per joint"
            )


class Ros2Control(DrivenBackend[Ros2ControlSettings]):
    """Backend that exchanges joint states and commands with arms over topics, through drivers."""

    Settings = Ros2ControlSettings
    interfaces = COMMAND_INTERFACES
    response_cycles = 1

    @classmethod
    def interfaces_with(cls, settings: Ros2ControlSettings) -> tuple[str, ...]:
        """Return the command interfaces that controllets may use with these settings.

        These are ``effort`` if the driver sends efforts, otherwise ``position`` and ``velocity``.
        """
        return (
            COMMAND_INTERFACES[:1]
            if settings.command_interface == EFFORT
            else COMMAND_INTERFACES[1:]
        )

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
        """Yield messages about wrong rates, topics and joint names."""
        return check_arms(config, arms)

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        """Return a sentence for users on the reaction of the drivers to a stalled loop."""
        return (
            f"the drivers of {', '.join(arms)} brake the arms and compensate gravity where "
            "needed. Recover them when the loop runs"
        )

    def make_arm(
        self, index: int, state: ArmState, description: ArmDescription, cpus: Sequence[int]
    ) -> TopicArm:
        """Create the interface of an arm to its driver."""
        return TopicArm(state, description, self.settings[index], cpus)

    def switch_interface(self, arm: int, interface: str) -> None:
        """Let the driver of an arm use another command interface.

        Args:
            arm: Index of the arm in the cell.
            interface: New command interface, ``effort``, ``position`` or ``velocity``. For
                ``velocity``, the loop sends integrated positions.
        """
        kind = TORQUES if interface == COMMAND_INTERFACES[0] else POSITIONS
        self.real_arms[arm].link.engage(kind)
