# SPDX-License-Identifier: Apache-2.0
"""Real arms: one driver process each, woken by their states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import ArmConfig
from multipanda_py.drivers.driven_backend import DrivenBackend
from multipanda_py.drivers.memory import POSITIONS, TORQUES, VELOCITIES
from multipanda_py.franka.gripper import FrankaGripper
from multipanda_py.franka.real_arm import RealArm
from multipanda_py.franka.requirements import check_real_arms
from multipanda_py.franka.settings import FrankaSettings
from multipanda_py.robots import ArmDescription
from multipanda_py.state import INTERFACES, ArmState


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
