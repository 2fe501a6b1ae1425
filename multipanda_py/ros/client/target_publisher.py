# SPDX-License-Identifier: Apache-2.0
"""Targets that a client sends to laws of a running node."""

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

from multipanda_py.cell import Cell
from multipanda_py.cell.goals import Frames
from multipanda_py.cell.names import CellNames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.controllets.targets.pose import check_pose
from multipanda_py.exceptions import MultipandaError, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.ros.client.arm import RemoteArm
from multipanda_py.ros.client.node_link import HeardTopic, NodeLink
from multipanda_py.ros.node.conversions import write_pose
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.qos import STATES
from multipanda_py.ros.node.running import every
from multipanda_py.state import ArmSnapshot
from multipanda_py.targets import Stream

TOPIC = "life_sign"
LEASE = 0.5
"""Silence of somebody who moves arms after which they hold [s]."""
CHECK_PERIOD = 0.05
"""Between two looks [s]."""
MOST = 100
"""Senders that are remembered."""
_HEARTBEATS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class LifeSigns:
    """``life_sign``: a sender's name, then the arms that it moves now, between spaces.

    An arm goes to its newest target and stays there, whoever gave it and whatever became of
    that one. Who moves an arm by hand may want it to hold at once instead when nothing is heard
    any more: because the program was killed or stopped, or its machine or network is gone. It
    says so a few times each :data:`LEASE` while it does, and at the end once without arms.

    Args:
        node: Listens.
        cell: The cell.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        self._moving: dict[str, tuple[float, list[str]]] = {}
        node.create_subscription(String, TOPIC, self._take, _HEARTBEATS)
        every(node, CHECK_PERIOD, self._look)

    def _take(self, message: String) -> None:
        sender, *names = message.data.split()[: 1 + len(self._cell.arms)] or [""]
        arms = [name for name in names if name in self._cell.arms]
        self._moving.pop(sender, None)
        if arms and len(self._moving) < MOST:
            self._moving[sender] = time.monotonic(), arms

    def _look(self) -> None:
        now = time.monotonic()
        for sender, (heard, arms) in list(self._moving.items()):
            if now > heard + LEASE:
                del self._moving[sender]
                for arm in arms:
                    self._hold(arm, sender)

    def _hold(self, arm: str, sender: str) -> None:
        why = f"nothing was heard for {LEASE:g} s of {sender!r:.60}, which moved it"
        try:
            self._stop(arm)
        except MultipandaError as error:  # its law takes none of them, or the loop stands still
            self._logger.warning(f"{arm} is not told to hold: {error}; {why}")
        else:
            self._logger.warning(f"{arm} holds: {why}")

    def _stop(self, arm: str) -> None:
        """Give an arm the first target that its law takes of those that stop it."""
        with contextlib.suppress(TargetRejected):  # else it would come back to where it was now
            return self._cell.follow(arm, [])
        here = self._cell.state(arm).q
        for target in ({"pose": self._cell.pose(arm)}, {"q": here}):
            with contextlib.suppress(TargetRejected):
                return self._cell.set_target(arm, **target)
        return self._cell.set_target(arm, dq=0.0 * here)


try:
    from rclpy.event_handler import PublisherEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import PublisherEventCallbacks


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
        link.node.create_subscription(String, f"{root}/{TOPIC}", self._hear, _HEARTBEATS)

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
