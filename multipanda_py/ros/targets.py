# SPDX-License-Identifier: Apache-2.0
"""Subscriptions through which users ask arms and held objects to move."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial

from multipanda_py.cell import Cell
from multipanda_py.channel import Channel
from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.bounded_messages import MESSAGE, TARGET
from multipanda_py.ros.clock import NodeClock
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.held_off import HeldOff
from multipanda_py.ros.qos import TARGETS
from multipanda_py.ros.said_once import SaidOnce
from multipanda_py.ros.target_messages import NUMBER, PLAIN_KINDS, Reader, of_one_joint, reader_of

WARN_PERIOD = 1.0
"""Shortest time between two warnings about the same arm or controllet [s]."""
MAX_REASON = 1000
"""Longest reason that is kept, in characters; of longer ones their beginning and end."""


@dataclass
class ChannelRecord:
    """Messages of one channel of one arm or controllet.

    Attributes:
        received: Number of messages.
        refused: Number of refused messages.
        reason: Reason why the newest message was refused; empty if it was accepted.
    """

    received: int = 0
    refused: int = 0
    reason: str = ""
    is_refused: bool = False


class Targets:
    """Topics for what the cell's controllets take, per arm and per coupled controllet.

    An arm has ``target_pose``, ``target_joint`` and so on, as far as some controllet of it takes
    such a target; a controllet those of its shared channels: :attr:`.Channel.topic`.

    Attributes:
        received: Messages so far, by arm or controllet.
        last_reason: Why a target was refused last, by arm or controllet, or a goal of a hand.
        channels: Record of every channel, by arm or controllet and by name.
        held_off: Which streams are not taken at present.
        topics: Arm or controllet, name and message type of every topic, by its full name.
        senders: Nodes that publish a target, by arm or controllet, and name.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, clock: NodeClock, max_age: float) -> None:
        self._node, self._cell, self._max_age = node, cell, max_age
        self._clock, self._logger = clock, node.get_logger()
        self._names = {name: arm.joint_names for name, arm in cell.descriptions.items()}
        self.received: Counter[str] = Counter()
        self.last_reason: dict[str, str] = {}
        self.channels: dict[str, dict[str, ChannelRecord]] = {}
        self.held_off = HeldOff()
        self._warn_at: defaultdict[str, float] = defaultdict(float)
        self._said = SaidOnce()
        listening: set[tuple[str, str]] = set()
        self.topics: dict[str, tuple[str, str, str]] = {}
        self.senders: dict[tuple[str, str], list[str]] = {}
        for spec in cell.specs:
            for channel in spec.channel_table.values():
                whose = (spec.name,) if channel.shared else spec.config.arms
                for who in whose:
                    if not channel.is_action and (who, channel.name) not in listening:
                        listening.add((who, channel.name))
                        self._listen(who, channel.name, channel.topic, channel.message,
                                     *reader_of(channel))  # fmt: skip
                        self._listen_to_joints(who, channel)

    def _listen_to_joints(self, arm: str, channel: Channel) -> None:
        """Subscribe to what takes one number for one joint of an arm."""
        joints = self._cell.descriptions[arm].actuated if channel.joint_topics else None
        for joint in joints.names if joints else ():
            kind, read = of_one_joint(joint)
            for topic in channel.joint_topics:
                self._listen(arm, channel.name, f"{joint}/{topic}", NUMBER, kind, read)

    def _listen(
        self, who: str, channel: str, topic: str, message: str, kind: type, read: Reader
    ) -> None:
        """Subscribe to bytes: what rclpy cannot read it drops, and nobody would know."""
        record = self.channels.setdefault(who, {}).setdefault(channel, ChannelRecord())
        limit = TARGET if kind in PLAIN_KINDS else MESSAGE
        callback = partial(self._receive, who, channel, record, read, limit)
        self.topics[self._node.resolve_topic_name(f"{who}/{topic}")] = who, topic, message
        self._node.create_subscription(
            kind, f"{who}/{topic}", callback, TARGETS, raw=True, max_size=sys.maxsize
        )

    def _receive(
        self, who: str, channel: str, record: ChannelRecord, read: Reader, limit: int, raw: bytes
    ) -> None:
        self.received[who] += 1
        record.received += 1
        try:
            now_ns = self._clock.check()
            if len(raw) > limit:
                raise TargetRejected(f"message: got {len(raw)} bytes, allowed {limit}")
            value, frame, stamp_ns = read(raw, self._names.get(who, ()))
            if stamp_ns is not None:
                self._clock.check_age(now_ns, stamp_ns, self._max_age)
            if self.held_off and (reason := self.held_off.refusal(who, channel, value)):
                raise TargetRejected(reason)
        except TargetRejected as error:
            self._cell.rejected[f"{who} target"] += 1  # which the cell does itself
            self._refuse(who, record, str(error))
            return
        try:
            self._cell.set_channel(who, channel, value, frame=frame)
        except TargetRejected as error:
            self._refuse(who, record, str(error))
        else:
            record.is_refused = False

    def remember(self, who: str, reason: str) -> str:
        """Keep why a target of an arm or controllet was refused; return it with the name.

        Names in it are the sender's and as long as it likes: diagnostics repeat what is kept.
        """
        text = reason if reason.startswith(who) or f"of {who}" in reason else f"{who}: {reason}"
        if len(text) > MAX_REASON:
            half = MAX_REASON // 2
            text = f"{text[:half]} ... {text[-half:]}"
        self.last_reason[who] = text
        return text

    def _refuse(self, who: str, record: ChannelRecord, reason: str) -> None:
        """Remember why; said once, then counted, for a stream would say it for ever."""
        text, now = self.remember(who, reason), time.monotonic()
        record.refused += 1
        record.reason, record.is_refused = text, True
        if now >= self._warn_at[who] and (news := self._said.news(text)):
            self._logger.warning(f"target refused: {news}")
            self._warn_at[who] = now + WARN_PERIOD
