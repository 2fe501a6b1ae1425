# SPDX-License-Identifier: Apache-2.0
"""What a running node says of all arms and things of its cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_things
from multipanda_py.config.node_names import NODE
from multipanda_py.exceptions import TopicLost
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client_link import ClientLink, HeardTopic
from multipanda_py.ros.qos import NUMBERS
from multipanda_py.ros.remote_arm import RemoteArm
from multipanda_py.ros.remote_world import pose_from

STALE = 0.5
"""How old a state may be, where states come fast enough [s]."""


class RemoteStates:
    """Hear arms and things of a cell.

    Args:
        link: Hears.
        root: Namespace of the cell, with a slash in front, or nothing.
        config: The cell.
        descriptions: What its arms are, by name.

    Attributes:
        arms: By name.
        things: Poses of movable things, by name.
    """

    def __init__(
        self,
        link: ClientLink,
        root: str,
        config: CellConfig,
        descriptions: Mapping[str, ArmDescription],
    ) -> None:
        self._link, self._root, self._config, self._origin = link, root, config, 0.0
        stale = max(STALE, 5.0 / config.cell.joint_state_rate)
        merged = link.hear(JointState, f"{root}/joint_states", stale)
        self.arms = {
            name: RemoteArm(link, root, name, arm, stale, merged)
            for name, arm in descriptions.items()
        }
        link.node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnose, NUMBERS)
        self.things = {
            name: link.hear(PoseStamped, f"{root}/objects/{name}/pose", stale)
            for name in movable_things(config)
        }

    @property
    def topics(self) -> list[HeardTopic]:
        """What has to be heard of all arms."""
        return [topic for arm in self.arms.values() for topic in arm.topics]

    @property
    def time(self) -> float:
        """When the newest states of all arms were measured, from the first one on [s]."""
        return min(arm.stamp for arm in self.arms.values()) - self._origin

    def begin(self, patience: float) -> None:
        """Wait until everything has been heard once; time begins then.

        Raises:
            TopicLost: With what has not.
        """

        def silent() -> list[str]:
            untold = [arm.name for arm in self.arms.values() if arm.told < 0.0]
            found = [topic.name for topic in self.topics if not topic.count]
            return [*dict.fromkeys(found), *(f"/diagnostics of {name}" for name in untold)]

        if not self._link.until(lambda: not silent(), patience):
            raise TopicLost(
                f"{', '.join(silent())}: nothing heard within {patience:g} s from the node "
                f"{self._root}/{NODE}; is it active, and its simulation not paused?"
            )
        self._origin = min(arm.stamp for arm in self.arms.values())

    def begin_anew(self, patience: float) -> None:
        """Wait until states of all arms are new.

        Raises:
            TopicLost: If they do not become so.
        """
        topics = self.topics
        if not self._link.until(lambda: all(topic.is_new for topic in topics), patience):
            for topic in topics:
                topic.check()

    def objects(self) -> dict[str, Pose]:
        """Return where movable things are in the world, whoever says so.

        Raises:
            TopicLost: If nobody does of one that the cell has from the start.
        """
        return {
            name: pose_from(topic)
            for name, topic in self.things.items()
            if topic.count or self._config.objects[name].present
        }

    def _diagnose(self, message: Any) -> None:
        for status in message.status:
            cell, _, name = status.hardware_id.rpartition("/")
            if cell == self._config.cell.name and name in self.arms:
                self.arms[name].tell({item.key: item.value for item in status.values})
