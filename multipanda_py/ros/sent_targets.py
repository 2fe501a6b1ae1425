# SPDX-License-Identifier: Apache-2.0
"""Targets on their way to a running node, and the sign that who gives them is there."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped
from std_msgs.msg import String

try:
    from rclpy.event_handler import PublisherEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import PublisherEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy

from multipanda_py.cell.gate import Frames
from multipanda_py.channels.pose import check_pose
from multipanda_py.channels.stream import Stream
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.ros.conversions import write_pose
from multipanda_py.ros.life_signs import LEASE, TOPIC
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.state import ArmSnapshot

MOVES = LEASE + 0.3
"""So long after its last target an arm counts as moved by this panel [s]."""
HEARTBEAT_PERIOD = 0.1
"""Between two signs [s]."""
LAST_SIGNS = 3
"""How often it is said that no arm is moved any more: one may get lost."""
DEAF = 0.5
"""So long after this program stood still it gives no targets: what it knows is of the past [s]."""
JUST = 0.3
"""Until then a node says that a law has begun, and on a busy machine [s]."""
_UNSENT = 0.5
_TARGETS = QoSProfile(depth=1)
_SIGNS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class SentTargets:
    """Publish poses for tools, after the look at them that the node will have, too.

    Nobody answers a target, so that one beyond the gate is refused here already. An arm has a
    publisher from its first target on: until then nobody is to think that two pull at it. Stamps
    are of when a target was given: one that a stopped program sends later is too old for the node.

    Args:
        link: To the node.
        root: Namespace of the cell, with a slash in front, or nothing.
        config: The cell.
        frames: In which targets may be.
        is_stamped: Returns whether the node has the machine's time: by another one's stamps
            would be of the future.

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
        self._signs_left, self._sign_at = 0, 0.0
        self._alive, self._deaf_until = time.monotonic(), 0.0
        self._name = link.node.get_name()
        self._signs = self._publisher(String, f"{root}/{TOPIC}")
        self._others: dict[str, tuple[str, float]] = {}
        link.node.create_subscription(String, f"{root}/{TOPIC}", self._hear, _SIGNS)

    def give(self, state: ArmSnapshot, pose: Pose, frame: str) -> None:
        """Send a target.

        Args:
            state: Of the arm.
            pose: Of its tool.
            frame: In which it is.

        Raises:
            TargetRejected: If it is beyond the gate, or somebody else moves the arm now, or this
                program stood still, so that the node has had the arm hold, and what is known of
                it may be old.
        """
        arm, now, stamp = state.name, time.monotonic(), time.time_ns()
        if now > self._alive + LEASE or now < self._deaf_until:
            raise TargetRejected(f"{arm}: target: this program stood still: ask again")
        if other := self._moved_by(arm, now):
            raise TargetRejected(f"{arm}: target: {other!r:.60} moves it now: ask again later")
        placed = self._frames.base_from(frame, arm) @ pose
        check_pose(placed, state, self._gate, self._streams[arm].of(state.owner, 0, now))
        message = PoseStamped()
        message.header.frame_id = frame
        self._stamp(message, stamp)
        write_pose(message.pose, pose)
        if arm not in self._publishers:
            topic = f"{self._root}/{arm}/target_pose"
            self._publishers[arm] = self._publisher(PoseStamped, topic)
        if not self._moved:
            self._sign_at = 0.0
        self._moved[arm] = now + MOVES
        self._unsent[arm] = now, message
        self.say_life()

    def has_just_given(self, arm: str) -> bool:
        """Return whether an arm's last target is newer than what a node may have said since."""
        return time.monotonic() < self._moved.get(arm, 0.0) - MOVES + JUST

    def say_life(self) -> None:
        """Send what waits, and say which arms are moved, when it is time."""
        now = time.monotonic()
        if now > self._alive + LEASE and self._moved:  # the node has had them hold
            self._deaf_until = now + DEAF
        self._alive = now
        for arm, (given, message) in list(self._unsent.items()):
            if now < given + _UNSENT:
                if not self._publishers[arm].get_subscription_count():
                    continue
                self._publishers[arm].publish(message)
            del self._unsent[arm]
        if self._moved:
            self._moved = {arm: until for arm, until in self._moved.items() if until > now}
            self._signs_left = LAST_SIGNS
        if self._signs_left and now >= self._sign_at:
            self._sign_at = now + HEARTBEAT_PERIOD
            self._signs_left -= 1
            self._signs.publish(String(data=" ".join((self._name, *self._moved))))

    def _moved_by(self, arm: str, now: float) -> str:
        """Return who else moves an arm, if that counts: of two at once the lower name does."""
        name, heard = self._others.get(arm, ("", -LEASE))
        is_ours = self._moved.get(arm, 0.0) > now
        return name if now < heard + LEASE and not (is_ours and self._name < name) else ""

    def _hear(self, sign: String) -> None:
        """Take note of whom others move. Thread: the link's."""
        sender, *arms = sign.data.split() or [""]
        if sender == self._name:
            return
        for arm, (name, _) in list(self._others.items()):
            if name == sender and arm not in arms:
                self._others.pop(arm, None)
        for arm in arms[: len(self._streams)]:
            if arm in self._streams:
                self._others[arm] = sender, time.monotonic()

    def close(self, state: Callable[[str], ArmSnapshot]) -> None:
        """Have arms hold that may be on their way."""
        now = time.monotonic()
        for arm in [arm for arm, until in self._moved.items() if until > now]:
            here = state(arm)
            with contextlib.suppress(TargetRejected):  # the node has had it hold already
                self.give(here, Pose(here.position_ee_in_base, here.rotation_ee_in_base), "")
        self._moved, self._sign_at = {}, 0.0
        if self._publishers:
            self._signs_left = 1
            self.say_life()

    def _publisher(self, kind: Any, topic: str) -> Any:
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        return self._node.create_publisher(kind, topic, _TARGETS, event_callbacks=quiet)

    def _stamp(self, message: PoseStamped, time_ns: int) -> None:
        if self._is_stamped():
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(time_ns, 1_000_000_000)
