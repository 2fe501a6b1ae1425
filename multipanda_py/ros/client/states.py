# SPDX-License-Identifier: Apache-2.0
"""States of all arms and objects of a running node's cell."""

from __future__ import annotations

from collections.abc import Mapping

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_objects
from multipanda_py.config.parameter_file import NODE
from multipanda_py.exceptions import TopicLost
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.robots import ArmDescription
from multipanda_py.ros.client.arm import RemoteArm
from multipanda_py.ros.client.cell_state import NodeStatus
from multipanda_py.ros.client.node_link import LatestMessage, NodeLink
from multipanda_py.ros.node.conversions import read_pose
from multipanda_py.ros.services.entity_helpers import WORLD

MIN_STATE_TIMEOUT = 0.5
"""Minimum timeout of a state topic [s]; longer at low state rates."""


class RemoteStates:
    """Subscriptions to the states of a cell.

    Args:
        link: Link to the node.
        root: Namespace of the cell with a leading slash, or empty.
        config: Configuration of the cell.
        descriptions: Descriptions of its arms, by name.

    Attributes:
        arms: States of the arms, by name.
        object_topics: Subscriptions to the poses of movable objects, by name.
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        descriptions: Mapping[str, ArmDescription],
    ) -> None:
        self._link, self._root, self._config, self._origin = link, root, config, 0.0
        stale = max(MIN_STATE_TIMEOUT, 5.0 / config.cell.joint_state_rate)
        merged = link.hear(JointState, f"{root}/joint_states", stale)
        status = self._status = NodeStatus(config, link.node)
        self.arms = {
            name: RemoteArm(link, root, name, arm, stale, merged, status)
            for name, arm in descriptions.items()
        }
        self.object_topics = {
            name: link.hear(PoseStamped, f"{root}/objects/{name}/pose", stale, read_pose)
            for name in movable_objects(config)
        }

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``."""
        return self._status.events_since(count)

    @property
    def topics(self) -> list[LatestMessage]:
        """Subscriptions that are required for the states of all arms."""
        return [topic for arm in self.arms.values() for topic in arm.topics]

    @property
    def time(self) -> float:
        """Time of the newest states of all arms, relative to the first ones [s]."""
        return min(arm.stamp for arm in self.arms.values()) - self._origin

    def wait_for_states(self, timeout: float) -> None:
        """Wait until every topic has a message, then set :attr:`time` to zero.

        Args:
            timeout: Maximum time to wait [s].

        Raises:
            TopicLost: If a topic has no message in time; the message lists these topics.
        """

        def silent() -> list[str]:
            untold = [arm.name for arm in self.arms.values() if arm.status.received_at < 0.0]
            result = [topic.name for topic in self.topics if not topic.count]
            return [*dict.fromkeys(result), *(f"/diagnostics of {name}" for name in untold)]

        self._link.need(
            silent, timeout, f"no message from {self._root}/{NODE}",
            ". Check that it is active and its simulation not paused",
        )  # fmt: skip
        self._origin = min(arm.stamp for arm in self.arms.values())

    def restart(self, timeout: float) -> None:
        """Wait until the states of all arms are recent.

        Raises:
            TopicLost: If a state stays outdated.
        """
        topics = self.topics
        if not self._link.until(lambda: all(topic.is_new for topic in topics), timeout):
            for topic in topics:
                topic.check()

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable objects in the world.

        Raises:
            TopicLost: If an object that is present from the start has no pose.
        """
        return {
            name: _in_world(topic)
            for name, topic in self.object_topics.items()
            if topic.count or self._config.objects[name].present
        }


def _in_world(topic: LatestMessage) -> Pose:
    message = topic.message()
    if message.frame not in ("", WORLD):
        raise TopicLost(f"{topic.name}: got frame {message.frame!r}, allowed {WORLD}")
    pose: Pose = message.pose
    return pose
