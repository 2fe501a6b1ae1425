# SPDX-License-Identifier: Apache-2.0
"""Targets that a client sends to laws of a running node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, WrenchStamped
from numpy.typing import ArrayLike
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from multipanda_py.cell.names import CellNames
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.ros.conversions import write_pose
from multipanda_py.ros.heard_topic import HeardTopic
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.qos import STATES
from multipanda_py.ros.remote_arm import RemoteArm

_KINDS = {"pose": PoseStamped, "joint": JointState, "wrench": WrenchStamped}
"""Types of messages, by channel."""
_OWN = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Every target counts, of whoever sends it."""


class RemoteTargets:
    """Publish targets, with the node's own time: what comes late is refused there.

    Their topics are heard, too: more targets than were sent are of somebody else, and arms would
    go to and fro between both.

    Args:
        link: Publishes.
        root: Namespace of the cell.
        names: Of the cell.
        arms: By name.

    Attributes:
        sent: How many messages were, by arm.
    """

    def __init__(
        self, link: NodeLink, root: str, names: CellNames, arms: Mapping[str, RemoteArm]
    ) -> None:
        self._link, self._root, self._names, self._arms = link, root, names, arms
        self.sent: Counter[str] = Counter()
        self._publishers: dict[tuple[str, str], Any] = {}
        self._heard: dict[tuple[str, str], HeardTopic] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._begun: dict[tuple[str, str], int] = {}
        self._last: dict[str, float] = {}

    def offer(self, laws: Mapping[str, str]) -> None:
        """Get ready to send what laws take, which are given by arm."""
        for arm, law in laws.items():
            for channel in self._names.spec(law).channel_table.values():
                key, topic = (arm, channel.name), f"{self._root}/{arm}/{channel.topic}"
                if channel.name in _KINDS and key not in self._publishers:
                    kind = _KINDS[channel.name]
                    self._heard[key] = self._link.hear(kind, topic, qos=_OWN)
                    self._publishers[key] = self._link.node.create_publisher(kind, topic, STATES)

    def begin(self) -> None:
        """Forget what was sent, and heard, until now."""
        self._last.clear()
        self._counts = Counter()
        self._begun = {key: heard.count for key, heard in self._heard.items()}

    def silence(self, arm: str) -> float:
        """Return how long ago the last target of an arm was sent, by the node's clock [s]."""
        last = self._last.get(arm)
        return 0.0 if last is None else self._arms[arm].now - last

    def of_others(self, arm: str) -> str:
        """Return the topic on which somebody else gives an arm what is given here, or nothing."""
        for key, heard in self._heard.items():
            sent = self._counts[key]
            if key[0] == arm and sent and heard.count - self._begun.get(key, 0) > sent:
                return str(heard.name)
        return ""

    def wait(self, patience: float) -> None:
        """Wait until the node listens.

        Raises:
            TopicLost: If it does not.
        """
        self._link.need(self._unheard, patience, "nobody listens")

    def send(
        self, arm: str, pose: Pose | None, q: ArrayLike | None, wrench: ArrayLike | None
    ) -> None:
        """Send what is given.

        Raises:
            TargetRejected: If a number is not finite; nothing is sent.
        """
        given = {"joint": q, "wrench": wrench}
        numbers = {name: np.asarray(v, float) for name, v in given.items() if v is not None}
        for name, values in numbers.items():
            if not np.isfinite(values).all():
                raise TargetRejected(
                    f"{arm}: {name}: got {values.tolist()}, allowed finite numbers"
                )
        if pose is not None:
            message = self._stamped(arm, "pose")
            write_pose(message.pose, pose)
            self._publishers[arm, "pose"].publish(message)
        for name, values in numbers.items():
            message = self._stamped(arm, name)
            if name == "joint":
                message.name = list(self._names.descriptions[arm].joint_names)
                message.position = values.tolist()
            else:
                force, torque = message.wrench.force, message.wrench.torque
                force.x, force.y, force.z = values[:3].tolist()
                torque.x, torque.y, torque.z = values[3:].tolist()
            self._publishers[arm, name].publish(message)

    def _stamped(self, arm: str, name: str) -> Any:
        """Return a message of now; without a frame it is meant in the base of its arm."""
        if (arm, name) not in self._publishers:
            raise TargetRejected(f"{arm}: its law takes no {name}")
        message, now = _KINDS[name](), self._arms[arm].now
        self.sent[arm] += 1
        self._counts[arm, name] += 1
        self._last[arm] = now
        message.header.stamp = Time(sec=int(now), nanosec=int(now % 1.0 * 1e9))
        return message

    def _unheard(self) -> list[str]:
        all_of_them = self._publishers.values()
        return [one.topic_name for one in all_of_them if not one.get_subscription_count()]
