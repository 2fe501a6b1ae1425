# SPDX-License-Identifier: Apache-2.0
"""Target topics, temporary rejection of streams, and the topics ``target_status``."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.node.bounded_messages import MAX_MESSAGE_SIZE, MAX_TARGET_SIZE
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.conversions import (
    NUMBER_TYPE,
    PLAIN_KINDS,
    Reader,
    of_one_joint,
    reader_of,
)
from multipanda_py.ros.node.guard import GuardedNode, ThrottledLog
from multipanda_py.ros.node.qos import LATCHED, TARGET_QOS
from multipanda_py.ros.node.running import every
from multipanda_py.targets import Channel

Key = tuple[str, str]
"""Name of an arm or controllet, and of a channel."""
STREAM_TIMEOUT = 0.5
"""Time without a message after which a stream has ended and a target is a new one [s]."""


class TargetInhibit:
    """Temporary rejection of target streams, for example while a trajectory is followed.

    After :meth:`release`, a stream that repeats its last rejected target stays rejected, until it
    sends another value or pauses.

    Args:
        now: Clock of the machine [s].

    Thread: executor.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._reasons: dict[Key, str] = {}
        self._repeated: dict[Key, tuple[float, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons or self._repeated)

    def inhibit(self, owner: str, channel: str, reason: str) -> None:
        """Reject the targets of a channel of an arm or controllet, with a reason for clients."""
        self._reasons[owner, channel] = reason

    def release(self, owner: str, channel: str) -> None:
        """Accept targets of a channel again, except repetitions of the last rejected one."""
        self._reasons.pop((owner, channel), None)

    def channels(self, owner: str) -> list[str]:
        """Return the rejected channels of an arm or a controllet."""
        return [channel for name, channel in self._reasons if name == owner]

    def reason(self, owner: str, channel: str) -> str:
        """Return why a channel is rejected now, or an empty string."""
        return self._reasons.get((owner, channel), "")

    def refusal(self, owner: str, channel: str, value: Any) -> str:
        """Return why a target of an arm or controllet is rejected, or an empty string."""
        key, now = (owner, channel), self._now()
        if reason := self._reasons.get(key):
            self._repeated[key] = now, value
            return reason
        since, old = self._repeated.get(key, (-np.inf, None))
        if now - since < STREAM_TIMEOUT and _are_equal(value, old):
            self._repeated[key] = now, old
            return f"{channel}: repeats a target that was rejected before. Send another, or pause"
        self._repeated.pop(key, None)
        return ""


def _are_equal(one: Any, other: Any) -> bool:
    # Parts of nested sequences may be None.
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(np.array_equal(one, other))


WARN_PERIOD = 1.0
"""Minimum time between two warnings about the same arm or controllet [s]."""
MAX_REASON_LENGTH = 1000
"""Maximum length of a stored reason [characters]; the middle of longer ones is cut."""


@dataclass
class ChannelRecord:
    """Counters of the messages of one channel of an arm or controllet.

    Attributes:
        received: Number of messages.
        refused: Number of rejected messages.
        reason: Reason of the newest rejection; empty before the first.
        is_refused: True if the newest message was rejected.
    """

    received: int = 0
    refused: int = 0
    reason: str = ""
    is_refused: bool = False


class Targets:
    """Target topics of the arms, and of controllets that use several arms together.

    An arm has ``target_pose``, ``target_joint`` and so on, if one of its controllets accepts such
    a target.

    Args:
        max_age: Maximum age of a stamped target [s].

    Attributes:
        received: Number of messages, by arm or controllet.
        last_reason: Reason of the last rejected target, by arm or controllet, and of the last
            gripper goal.
        channels: Counters of every channel, by arm or controllet and by name of the channel.
        held_off: Streams that are rejected at present.
        topics: Arm or controllet, relative name and message type, by full name of the topic.
        senders: Names of the nodes that publish a target, by arm or controllet and by channel.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, clock: NodeClock, max_age: float) -> None:
        self._node, self._cell, self._max_age = node, cell, max_age
        self._clock, self._logger = clock, node.get_logger()
        self._names = {name: arm.joint_names for name, arm in cell.descriptions.items()}
        self.received: Counter[str] = Counter()
        self.last_reason: dict[str, str] = {}
        self.channels: dict[str, dict[str, ChannelRecord]] = {}
        self.held_off = TargetInhibit()
        self._warn_at: defaultdict[str, float] = defaultdict(float)
        self._reported = ThrottledLog()
        listening: set[tuple[str, str]] = set()
        self.topics: dict[str, tuple[str, str, str]] = {}
        self.senders: dict[tuple[str, str], list[str]] = {}
        for spec in cell.specs:
            for channel in spec.channel_table.values():
                owners = (spec.name,) if channel.shared else spec.config.arms
                for owner in owners:
                    if not channel.is_action and (owner, channel.name) not in listening:
                        listening.add((owner, channel.name))
                        self._listen(owner, channel.name, channel.topic, channel.message,
                                     *reader_of(channel))  # fmt: skip
                        self._listen_to_joints(owner, channel)

    def _listen_to_joints(self, arm: str, channel: Channel) -> None:
        joints = self._cell.descriptions[arm].actuated if channel.joint_topics else None
        for joint in joints.names if joints else ():
            kind, read = of_one_joint(joint)
            for topic in channel.joint_topics:
                self._listen(arm, channel.name, f"{joint}/{topic}", NUMBER_TYPE, kind, read)

    def _listen(
        self, name: str, channel: str, topic: str, message: str, kind: type, read: Reader
    ) -> None:
        record = self.channels.setdefault(name, {}).setdefault(channel, ChannelRecord())
        limit = MAX_TARGET_SIZE if kind in PLAIN_KINDS else MAX_MESSAGE_SIZE
        callback = partial(self._receive, name, channel, record, read, limit)
        self.topics[self._node.resolve_topic_name(f"{name}/{topic}")] = name, topic, message
        # Raw bytes, because rclpy silently drops unreadable messages.
        self._node.create_subscription(
            kind, f"{name}/{topic}", callback, TARGET_QOS, raw=True, max_size=sys.maxsize
        )

    def _receive(
        self, name: str, channel: str, record: ChannelRecord, read: Reader, limit: int, raw: bytes
    ) -> None:
        self.received[name] += 1
        record.received += 1
        try:
            now_ns = self._clock.check()
            if len(raw) > limit:
                raise TargetRejected(f"message: got {len(raw)} bytes, allowed {limit}")
            value, frame, stamp_ns = read(raw, self._names.get(name, ()))
            if stamp_ns is not None:
                self._clock.check_age(now_ns, stamp_ns, self._max_age)
            if self.held_off and (reason := self.held_off.refusal(name, channel, value)):
                raise TargetRejected(reason)
        except TargetRejected as error:
            # Count this rejection here, because the cell counts only those of ``set_channel``.
            self._cell.rejected[f"{name} target"] += 1
            self._record_rejection(name, record, str(error))
            return
        try:
            self._cell.set_channel(name, channel, value, frame=frame)
        except TargetRejected as error:
            self._record_rejection(name, record, str(error))
        else:
            record.is_refused = False

    def remember(self, owner: str, reason: str) -> str:
        """Store the reason of a rejected target for diagnostics, and return the stored text.

        Args:
            owner: Name of the arm or controllet, added to the text unless it is in the reason.
            reason: Reason of the rejection; a long text is shortened.
        """
        text = (
            reason if reason.startswith(owner) or f"of {owner}" in reason else f"{owner}: {reason}"
        )
        if len(text) > MAX_REASON_LENGTH:
            half = MAX_REASON_LENGTH // 2
            text = f"{text[:half]} ... {text[-half:]}"
        self.last_reason[owner] = text
        return text

    def _record_rejection(self, name: str, record: ChannelRecord, reason: str) -> None:
        text, now = self.remember(name, reason), time.monotonic()
        record.refused += 1
        record.reason, record.is_refused = text, True
        if now >= self._warn_at[name] and (news := self._reported.new_text(text)):
            self._logger.warning(f"target rejected: {news}")
            self._warn_at[name] = now + WARN_PERIOD


PERIOD = 0.05
"""Minimum time between two messages about one arm or controllet [s]."""
COUNT_PERIOD = 0.5
"""Time between two messages that differ only in their counts [s]."""
CHANNEL_TIMEOUT = 1.0
"""Time without a message after which a channel is not in use [s]."""
ACCEPTED_STATE, NO_TARGET_YET = "accepted", "no target received"
CLIPPED_MESSAGE = "clipped to the gate: the target stream is beyond the gate"


class TargetStatus:
    """Latched topics ``<arm>/target_status`` and ``<controllet>/target_status``.

    The level is OK while the newest target of every channel in use is accepted, else WARN with the
    reason as message. The values are state and counts of each channel in use.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell, targets: Targets) -> None:
        self._status = [
            _Status(node, cell, name, channels)
            for name, channels in sorted(targets.channels.items())
        ]
        every(node, PERIOD, self._tick)

    def _tick(self) -> None:
        for status in self._status:
            status.update()


class _Status:
    """Publisher of the topic ``target_status`` of one arm or controllet."""

    def __init__(
        self, node: Node, cell: Cell, name: str, channels: dict[str, ChannelRecord]
    ) -> None:
        self._cell, self._name, self._channels = cell, name, channels
        self._publisher = node.create_publisher(DiagnosticStatus, f"{name}/target_status", LATCHED)
        self._message = DiagnosticStatus(
            name=name, hardware_id=f"{cell.config.cell.name}/{name}", message=NO_TARGET_YET
        )
        self._received = dict.fromkeys(channels, 0)
        self._clipped = dict.fromkeys(channels, 0)
        self._received_at = dict.fromkeys(channels, -CHANNEL_TIMEOUT)
        self._refused = dict.fromkeys(channels, 0)
        self._sent_at, self._has_news = 0.0, False
        self._publisher.publish(self._message)

    def update(self) -> None:
        """Publish after new targets: changed states at once, counts once per ``COUNT_PERIOD``."""
        now, states = time.monotonic(), {}
        for name, record in self._channels.items():
            if record.received != self._received[name]:
                self._received[name], self._received_at[name] = record.received, now
                self._has_news = True
            if now - self._received_at[name] < CHANNEL_TIMEOUT:
                states[name] = self._channel_state(name, record)
        if not self._has_news or not states:
            return
        bad = [f"{name} {state}" for name, state in states.items() if state != ACCEPTED_STATE]
        level = DiagnosticStatus.WARN if bad else DiagnosticStatus.OK
        text = "; ".join(bad) or ACCEPTED_STATE
        message = self._message
        has_changed = (level, text) != (message.level, message.message)
        if has_changed or now - self._sent_at >= COUNT_PERIOD:
            self._sent_at, self._has_news = now, False
            message.level, message.message = level, text
            message.values = [
                KeyValue(key=f"{name} {key}", value=value)
                for name, state in states.items()
                for key, value in self._values(name, state)
            ]
            self._publisher.publish(message)

    def _channel_state(self, name: str, record: ChannelRecord) -> str:
        clipped = self._cell.clipped[f"{self._name} {name}"]
        is_clipped, self._clipped[name] = clipped != self._clipped[name], clipped
        has_refused = record.refused != self._refused[name]
        self._refused[name] = record.refused
        if record.is_refused or has_refused:
            return f"rejected: {record.reason}"
        return CLIPPED_MESSAGE if is_clipped else ACCEPTED_STATE

    def _values(self, name: str, state: str) -> list[tuple[str, str]]:
        record = self._channels[name]
        return [
            ("state", state),
            ("received", str(record.received)),
            ("rejected", str(record.refused)),
            ("clipped", str(self._clipped[name])),
        ]
