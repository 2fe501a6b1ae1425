# SPDX-License-Identifier: Apache-2.0
"""Arms that a foreign controller manager drives: one driver process each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.drivers.driven_backend import DrivenBackend
from multipanda_py.drivers.memory import POSITIONS, TORQUES
from multipanda_py.robots import ArmDescription
from multipanda_py.ros2_control.requirements import check_arms
from multipanda_py.ros2_control.settings import EFFORT, Ros2ControlSettings
from multipanda_py.ros2_control.topic_arm import TopicArm
from multipanda_py.state import INTERFACES, ArmState


class Ros2Control(DrivenBackend[Ros2ControlSettings]):
    """Exchange joint states and commands with arms over topics, through their drivers."""

    Settings = Ros2ControlSettings
    interfaces = INTERFACES
    answer_periods = 1

    @classmethod
    def interfaces_with(cls, settings: Ros2ControlSettings) -> tuple[str, ...]:
        """Return efforts, or positions, to which the loop takes velocities too."""
        return INTERFACES[:1] if settings.command_interface == EFFORT else INTERFACES[1:]

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
        """Check rates, topics and names of joints."""
        return check_arms(config, arms)

    @classmethod
    def describe_silence(cls, arms: Sequence[str]) -> str:
        """Say what drivers have done."""
        return (
            f"the drivers of {', '.join(arms)} brake the arms and carry those that do not carry "
            "themselves; recover them when the loop runs"
        )

    def make_arm(
        self, index: int, state: ArmState, description: ArmDescription, cpus: Sequence[int]
    ) -> TopicArm:
        """Return the arm behind its topics."""
        return TopicArm(state, description, self.settings[index], cpus)

    def engage(self, arm: int, interface: str) -> None:
        """Have a driver take positions; velocities come as what the loop has made of them."""
        kind = TORQUES if interface == INTERFACES[0] else POSITIONS
        self.real_arms[arm].link.engage(kind)
