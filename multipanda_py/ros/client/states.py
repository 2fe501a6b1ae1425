# SPDX-License-Identifier: Apache-2.0
"""What a running node says of all arms and things of its cell."""

from __future__ import annotations

from collections.abc import Mapping

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_things
from multipanda_py.config.node_names import NODE
from multipanda_py.exceptions import TopicLost
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client.arm import RemoteArm
from multipanda_py.ros.client.cell_state import NodeStatus
from multipanda_py.ros.client.node_link import HeardTopic, NodeLink
from multipanda_py.ros.node.conversions import read_pose
from multipanda_py.ros.services.entities import WORLD

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
        link: NodeLink,
        root: str,
        config: CellConfig,
        descriptions: Mapping[str, ArmDescription],
    ) -> None:
        self._link, self._root, self._config, self._origin = link, root, config, 0.0
        stale = max(STALE, 5.0 / config.cell.joint_state_rate)
        merged = link.hear(JointState, f"{root}/joint_states", stale)
        status = self._status = NodeStatus(config, link.node)
        self.arms = {
            name: RemoteArm(link, root, name, arm, stale, merged, status)
            for name, arm in descriptions.items()
        }
        self.things = {
            name: link.hear(PoseStamped, f"{root}/objects/{name}/pose", stale, read_pose)
            for name in movable_things(config)
        }

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return how much diagnostics have told so far, and what came after ``count``."""
        return self._status.events_since(count)

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
            untold = [arm.name for arm in self.arms.values() if arm.status.heard < 0.0]
            found = [topic.name for topic in self.topics if not topic.count]
            return [*dict.fromkeys(found), *(f"/diagnostics of {name}" for name in untold)]

        self._link.need(
            silent, patience, f"nothing heard of {self._root}/{NODE}",
            "; is it active, and its simulation not paused?",
        )  # fmt: skip
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
            name: _in_world(topic)
            for name, topic in self.things.items()
            if topic.count or self._config.objects[name].present
        }


def _in_world(topic: HeardTopic) -> Pose:
    said = topic.message()
    if said.frame not in ("", WORLD):
        raise TopicLost(f"{topic.name}: got frame {said.frame!r}, allowed {WORLD}")
    pose: Pose = said.pose
    return pose
