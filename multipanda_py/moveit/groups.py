# SPDX-License-Identifier: Apache-2.0
"""What of a cell MoveIt plans for: its groups of arms, its hands, and who follows the plans."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.sections import InstanceConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.targets import TRAJECTORY_CONTROLLETS

GRIPPER = "gripper"


@dataclass(frozen=True)
class Follower:
    """A controllet that follows trajectories.

    Attributes:
        name: Of the controllet, with that of its arm.
        arms: Its arms, in order.
        joints: Theirs.
    """

    name: str
    arms: tuple[str, ...]
    joints: tuple[str, ...]


class Groups:
    """Planning groups of a cell: one per arm, of its name; ``both`` or ``all`` of them; hands.

    Other sets of arms that a controllet follows trajectories with are groups too, such as
    ``left_right``. The group of a hand is ``left_hand``.

    Args:
        config: The cell.

    Attributes:
        arms: Every arm by name.
        sets: Names of arms by group, of groups of several arms.
        followers: Controllets that follow trajectories.

    Raises:
        ConfigurationError: If a group of several arms has the name of an arm, or nobody follows
            the plans for an arm.
    """

    def __init__(self, config: CellConfig) -> None:
        self.arms: dict[str, ArmDescription] = {arm.name: arm for arm in describe_arms(config)}
        everyone = tuple(self.arms)
        self.followers = [
            self._follower(one) for one in config.instances() if one.type in TRAJECTORY_CONTROLLETS
        ]
        self.sets: dict[str, tuple[str, ...]] = {}
        if len(everyone) > 1:
            self.sets["both" if len(everyone) == 2 else "all"] = everyone
        for follower in self.followers:
            if len(follower.arms) > 1 and set(follower.arms) != set(everyone):
                self.sets["_".join(follower.arms)] = follower.arms
        taken = {*self.arms, *(self.hand_group(arm) for arm in self.arms.values() if arm.hand)}
        for name in self.sets:
            if name in taken:
                raise ConfigurationError(
                    f"arms: got one with the name {name}, allowed others: {name} is the planning "
                    f"group of {', '.join(self.sets[name])}"
                )
        followed = {arm for follower in self.followers for arm in follower.arms}
        if left := [arm for arm in everyone if arm not in followed]:
            raise ConfigurationError(
                f"controllets: got none that follows trajectories with {', '.join(left)}, allowed "
                f"one of type {' or '.join(TRAJECTORY_CONTROLLETS)} for each arm"
            )

    @staticmethod
    def hand_group(arm: ArmDescription) -> str:
        """Return the name of the group of an arm's hand."""
        return f"{arm.name}_hand"

    def _follower(self, instance: InstanceConfig) -> Follower:
        joints = [name for arm in instance.arms for name in self.arms[arm].joint_names]
        return Follower(instance.name, tuple(instance.arms), tuple(joints))
