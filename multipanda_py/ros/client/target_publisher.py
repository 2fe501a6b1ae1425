# SPDX-License-Identifier: Apache-2.0
"""Publishers of targets for clients of a running node, with heartbeats while they move arms."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, WrenchStamped
from numpy.typing import ArrayLike
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from multipanda_py.cell.goals import Frames
from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.controllets.targets.cartesian import check_pose
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.ros.client.arm import RemoteArm
from multipanda_py.ros.client.node_link import LatestMessage, NodeLink
from multipanda_py.ros.node.conversions import write_pose, write_wrench
from multipanda_py.ros.node.heartbeat_monitor import HEARTBEAT_QOS, HEARTBEAT_TOPIC, LEASE_DURATION
from multipanda_py.ros.node.qos import STATE_QOS
from multipanda_py.state import ArmSnapshot
from multipanda_py.targets import Stream

try:
    from rclpy.event_handler import PublisherEventCallbacks
except ImportError:  # ROS 2 releases before Iron have this name.
    from rclpy.qos_event import PublisherEventCallbacks


MOVED_TIME = LEASE_DURATION + 0.3
"""Time after its last target during which an arm counts as moved by this panel [s]."""
HEARTBEAT_PERIOD = 0.1
"""Period of heartbeats [s]."""
FINAL_HEARTBEATS = 3
"""Number of final heartbeats without arms, because messages may be lost."""
RESUME_DELAY = 0.5
"""Time after a suspension of this program in which it sends no targets, because its data are old
[s]."""
ACTIVATION_DELAY = 0.3
"""Maximum delay until a node reports an activation on a busy machine [s]."""
_SUBSCRIBER_TIMEOUT = 0.5  # Time for which a target waits for a subscriber [s].
_TARGET_QOS = QoSProfile(depth=1)


class TargetPublisher:
    """Publisher of tool poses for a panel, which rejects targets beyond the gate.

    Args:
        frames: Frames of the cell, in which target poses may be given.
        is_stamped: Function that returns True if the node uses the time of this machine. Otherwise
            messages have no stamp.

    Thread: one.
    """

    def __init__(
        self,
        link: NodeLink,
        root: str,
        config: CellConfig,
        frames: Frames,
        is_stamped: Callable[[], bool],
    ) -> None:
        self._is_stamped = is_stamped
        self._node, self._root, self._frames = link.node, root, frames
        self._gate = config.gate.limits()
        self._publishers: dict[str, Any] = {}
        self._streams = {arm: Stream(f"{arm} pose", Counter()) for arm in config.arms}
        self._unsent: dict[str, tuple[float, PoseStamped]] = {}
        self._moved: dict[str, float] = {}
        self._heartbeats_left, self._next_heartbeat = 0, 0.0
        self._alive, self._deaf_until = time.monotonic(), 0.0
        self._name = link.node.get_name()
        topic = f"{root}/{HEARTBEAT_TOPIC}"
        self._heartbeats = self._publisher(String, topic)
        self._others: dict[str, tuple[str, float]] = {}
        link.node.create_subscription(
            String, f"{root}/{HEARTBEAT_TOPIC}", self._store_heartbeat, HEARTBEAT_QOS
        )

    def publish(self, state: ArmSnapshot, pose: Pose, frame: str) -> None:
        """Send the pose of an arm's tool in a frame as target.

        Raises:
            TargetRejected: If the target is beyond the gate, another client moves the arm, or this
                program was suspended. The node stops the arms of a suspended program.
        """
        arm, now, stamp = state.name, time.monotonic(), time.time_ns()
        if now > self._alive + LEASE_DURATION or now < self._deaf_until:
            raise TargetRejected(f"{arm}: target: this program was suspended. Try again")
        if other := self._competing_client(arm, now):
            raise TargetRejected(
                f"{arm}: target: {other!r:.60} moves the arm now. Try again later"
            )
        placed = self._frames.base_from(frame, arm) @ pose
        check_pose(
            placed, state, self._gate, self._streams[arm].for_activation(state.owner, 0, now)
        )
        message = PoseStamped()
        message.header.frame_id = frame
        # With this stamp the node rejects messages that a suspended program sends too late.
        self._stamp(message, stamp)
        write_pose(message.pose, pose)
        # An early publisher of an idle panel would appear as a competing one.
        if arm not in self._publishers:
            topic = f"{self._root}/{arm}/target_pose"
            self._publishers[arm] = self._publisher(PoseStamped, topic)
        if not self._moved:
            self._next_heartbeat = 0.0
        self._moved[arm] = now + MOVED_TIME
        self._unsent[arm] = now, message
        self.publish_heartbeat()

    def has_just_published(self, arm: str) -> bool:
        """Return True if an arm's last target is at most ``ACTIVATION_DELAY`` old."""
        return time.monotonic() < self._moved.get(arm, 0.0) - MOVED_TIME + ACTIVATION_DELAY

    def publish_heartbeat(self) -> None:
        """Send a due heartbeat with the arms that this program moves.

        Targets that waited for a subscriber are sent, too.
        """
        now = time.monotonic()
        # A program that calls this too late was suspended, and the node has stopped its arms.
        # Targets are then rejected until new states have arrived.
        if now > self._alive + LEASE_DURATION and self._moved:
            self._deaf_until = now + RESUME_DELAY
        self._alive = now
        for arm, (sent_at, message) in list(self._unsent.items()):
            if now < sent_at + _SUBSCRIBER_TIMEOUT:
                if not self._publishers[arm].get_subscription_count():
                    continue
                self._publishers[arm].publish(message)
            del self._unsent[arm]
        if self._moved:
            self._moved = {arm: until for arm, until in self._moved.items() if until > now}
            self._heartbeats_left = FINAL_HEARTBEATS
        if self._heartbeats_left and now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_PERIOD
            self._heartbeats_left -= 1
            self._heartbeats.publish(String(data=" ".join((self._name, *self._moved))))

    def _competing_client(self, arm: str, now: float) -> str:
        # If both programs move the arm, only the name that is first in alphabetical order counts.
        # Thus, one of two clients that start at once can continue.
        name, received = self._others.get(arm, ("", -LEASE_DURATION))
        is_ours = self._moved.get(arm, 0.0) > now
        return (
            name if now < received + LEASE_DURATION and not (is_ours and self._name < name) else ""
        )

    def _store_heartbeat(self, heartbeat: String) -> None:
        # Thread: that of the NodeLink.
        sender, *arms = heartbeat.data.split() or [""]
        if sender == self._name:
            return
        for arm, (name, _) in list(self._others.items()):
            if name == sender and arm not in arms:
                self._others.pop(arm, None)
        for arm in arms[: len(self._streams)]:
            if arm in self._streams:
                self._others[arm] = sender, time.monotonic()

    def close(self, state: Callable[[str], ArmSnapshot]) -> None:
        """Stop each moving arm by its measured pose as target, and end the heartbeat.

        Args:
            state: Function that returns the state of an arm by its name.
        """
        now = time.monotonic()
        for arm in [arm for arm, until in self._moved.items() if until > now]:
            here = state(arm)
            with contextlib.suppress(TargetRejected):  # The node may have stopped the arm already.
                self.publish(here, Pose(here.position_ee_in_base, here.rotation_ee_in_base), "")
        self._moved, self._next_heartbeat = {}, 0.0
        if self._publishers:
            self._heartbeats_left = 1
            self.publish_heartbeat()

    def _publisher(self, kind: Any, topic: str) -> Any:
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        return self._node.create_publisher(kind, topic, _TARGET_QOS, event_callbacks=quiet)

    def _stamp(self, message: PoseStamped, time_ns: int) -> None:
        if self._is_stamped():
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(time_ns, 1_000_000_000)


_KINDS = {"pose": PoseStamped, "joint": JointState, "wrench": WrenchStamped}
"""Message types by channel."""
_ALL_TARGETS_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile with a long queue, because every target of any sender counts."""


class RemoteTargets:
    """Publisher of targets for an environment or policy, which also detects competing clients.

    Targets have the time of the node as stamp. The node rejects targets that arrive late.

    Attributes:
        sent: Number of sent messages, by arm.
    """

    def __init__(
        self, link: NodeLink, root: str, names: CellNames, arms: Mapping[str, RemoteArm]
    ) -> None:
        self._link, self._root, self._names, self._arms = link, root, names, arms
        self.sent: Counter[str] = Counter()
        self._publishers: dict[tuple[str, str], Any] = {}
        self._latest: dict[tuple[str, str], LatestMessage] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._initial_counts: dict[tuple[str, str], int] = {}
        self._last: dict[str, float] = {}

    def offer(self, controllet_of_arm: Mapping[str, str]) -> None:
        """Create publishers for all channels of the controllets."""
        for arm, law in controllet_of_arm.items():
            for channel in self._names.spec(law).channel_table.values():
                key, topic = (arm, channel.name), f"{self._root}/{arm}/{channel.topic}"
                if channel.name in _KINDS and key not in self._publishers:
                    kind = _KINDS[channel.name]
                    self._latest[key] = self._link.hear(kind, topic, qos=_ALL_TARGETS_QOS)
                    self._publishers[key] = self._link.node.create_publisher(
                        kind, topic, STATE_QOS
                    )

    def forget_earlier_targets(self) -> None:
        """Forget the earlier targets for :meth:`target_age` and :meth:`competing_topic`."""
        self._last.clear()
        self._counts = Counter()
        self._initial_counts = {key: received.count for key, received in self._latest.items()}

    def target_age(self, arm: str) -> float:
        """Return the time since the last target of an arm [s]; 0 before the first one."""
        last = self._last.get(arm)
        return 0.0 if last is None else self._arms[arm].now - last

    def competing_topic(self, arm: str) -> str:
        """Return a topic on which another client also sends to an arm, or an empty string."""
        # More messages than this client has sent: arms would oscillate between two targets.
        for key, received in self._latest.items():
            sent = self._counts[key]
            if key[0] == arm and sent and received.count - self._initial_counts.get(key, 0) > sent:
                return str(received.name)
        return ""

    def wait(self, timeout: float) -> None:
        """Wait until the node subscribes to the targets.

        Raises:
            TopicLost: If a topic has no subscription in time.
        """
        self._link.need(self._without_subscriber, timeout, "no subscriber")

    def send(
        self, arm: str, pose: Pose | None, q: ArrayLike | None, wrench: ArrayLike | None
    ) -> None:
        """Send targets to an arm; None for targets that do not change.

        Args:
            arm: Name of the arm.
            pose: Pose of the tool in the base.
            q: Joint positions, (n,) [rad, m].
            wrench: Wrench of the tool along the axes of the base, (6,) [N, Nm].

        Raises:
            TargetRejected: If a number is not finite; nothing is sent.
        """
        overrides = {"joint": q, "wrench": wrench}
        numbers = {name: np.asarray(v, float) for name, v in overrides.items() if v is not None}
        for name, values in numbers.items():
            if not np.isfinite(values).all():
                raise TargetRejected(
                    f"{arm}: {name}: got {values.tolist()}, allowed finite numbers"
                )
        if pose is not None:
            message = self._new_message(arm, "pose")
            write_pose(message.pose, pose)
            self._publishers[arm, "pose"].publish(message)
        for name, values in numbers.items():
            message = self._new_message(arm, name)
            if name == "joint":
                message.name = list(self._names.descriptions[arm].joint_names)
                message.position = values.tolist()
            else:
                write_wrench(message.wrench, values.tolist())
            self._publishers[arm, name].publish(message)

    def _new_message(self, arm: str, channel: str) -> Any:
        if (arm, channel) not in self._publishers:
            raise TargetRejected(
                f"{arm}: its controllet accepts no {channel} target. Switch to another one"
            )
        message, now = _KINDS[channel](), self._arms[arm].now
        self.sent[arm] += 1
        self._counts[arm, channel] += 1
        self._last[arm] = now
        # Without a frame, a pose is in the base of the arm.
        message.header.stamp = Time(sec=int(now), nanosec=int(now % 1.0 * 1e9))
        return message

    def _without_subscriber(self) -> list[str]:
        all_of_them = self._publishers.values()
        return [one.topic_name for one in all_of_them if not one.get_subscription_count()]
