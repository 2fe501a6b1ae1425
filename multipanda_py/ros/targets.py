# SPDX-License-Identifier: Apache-2.0
"""Subscriptions through which users ask arms and held objects to move."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from multipanda_py.cell import Cell
from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.clock import NodeClock
from multipanda_py.ros.conversions import (
    joint_names,
    read_joints,
    read_message,
    read_pose,
    read_twist,
    read_wrench,
)

QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Asks for the least, so that every publisher matches; only the newest target counts."""
WARN_PERIOD = 1.0
"""Shortest time between two warnings about the same arm or controllet [s]."""


class Targets:
    """Topics for what the cell's controllets take, per arm and per coupled controllet.

    An arm has ``target_pose``, ``target_joint``, ``target_twist``, ``target_wrench`` and
    ``target_stiffness``, as far as some controllet of it takes such a target. A coupled
    controllet has ``target_pose`` of its object and ``target_squeeze``.

    Attributes:
        received: Messages so far, by arm or controllet.
        last_reason: Why a target was refused last, by arm or controllet.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell, clock: NodeClock, max_age: float) -> None:
        self._node, self._cell, self._max_age = node, cell, max_age
        self._clock, self._logger = clock, node.get_logger()
        self._names = {arm: joint_names(cell.config, arm) for arm in cell.arms}
        self.received: Counter[str] = Counter()
        self.last_reason: dict[str, str] = {}
        self._warn_at: defaultdict[str, float] = defaultdict(float)
        self._unsaid: Counter[str] = Counter()
        for arm in cell.arms:
            taken = {c for spec in cell.specs if arm in spec.config.arms for c in spec.channels}
            if "pose" in taken:
                self._listen(arm, "target_pose", PoseStamped, self._ask_pose)
            if "joint" in taken:
                self._listen(arm, "target_joint", JointState, self._ask_joints)
            if "twist" in taken:
                self._listen(arm, "target_twist", TwistStamped, self._ask_twist)
            if "wrench" in taken:
                self._listen(arm, "target_wrench", WrenchStamped, self._ask_wrench)
            if "stiffness" in taken:
                self._listen(arm, "target_stiffness", Float64MultiArray, self._ask_stiffness)
        for spec in cell.specs:
            if "object" in spec.channels:
                self._listen(spec.name, "target_pose", PoseStamped, self._ask_object)
            if "squeeze" in spec.channels:
                self._listen(spec.name, "target_squeeze", Float64, self._ask_squeeze)

    def _listen(self, who: str, topic: str, kind: type, ask: Callable[[str, Any], None]) -> None:
        """Subscribe to bytes: what rclpy cannot read it drops, and nobody would know."""
        read = bytes if kind is PoseStamped else partial(read_message, kind)
        callback = partial(self._receive, who, read, ask)
        self._node.create_subscription(kind, f"{who}/{topic}", callback, QOS, raw=True)

    def _receive(
        self,
        who: str,
        read: Callable[[bytes], Any],
        ask: Callable[[str, Any], None],
        raw: bytes,
    ) -> None:
        self.received[who] += 1
        counted = self._cell.rejected[f"{who} target"]
        try:
            self._clock.check()
            ask(who, read(raw))
        except TargetRejected as error:
            if self._cell.rejected[f"{who} target"] == counted:  # refused before the cell saw it
                self._cell.rejected[f"{who} target"] += 1
            self._refuse(who, str(error))

    def _ask_pose(self, arm: str, raw: bytes) -> None:
        stamped = read_pose(raw)
        self._clock.check_age(stamped.stamp_ns, self._max_age)
        self._cell.set_target(arm, stamped.pose, frame=stamped.frame)

    def _ask_joints(self, arm: str, message: JointState) -> None:
        q, dq = read_joints(message, self._names[arm])
        self._check_stamp(message)
        self._cell.set_target(arm, q=q, dq=dq)

    def _ask_twist(self, arm: str, message: TwistStamped) -> None:
        self._check_stamp(message)
        self._cell.set_target(arm, twist=read_twist(message), frame=message.header.frame_id)

    def _ask_wrench(self, arm: str, message: WrenchStamped) -> None:
        self._check_stamp(message)
        self._cell.set_target(arm, wrench=read_wrench(message), frame=message.header.frame_id)

    def _ask_stiffness(self, arm: str, message: Float64MultiArray) -> None:
        self._cell.set_target(arm, stiffness=list(message.data))

    def _ask_object(self, name: str, raw: bytes) -> None:
        stamped = read_pose(raw)
        self._clock.check_age(stamped.stamp_ns, self._max_age)
        self._cell.set_object_target(name, stamped.pose, frame=stamped.frame)

    def _ask_squeeze(self, name: str, message: Float64) -> None:
        self._cell.set_object_target(name, squeeze=message.data)

    def _check_stamp(self, message: Any) -> None:
        stamp = message.header.stamp
        self._clock.check_age(stamp.sec * 1_000_000_000 + stamp.nanosec, self._max_age)

    def _refuse(self, who: str, reason: str) -> None:
        """Remember why, and say so at most once per ``WARN_PERIOD``; it is counted already."""
        text = reason if reason.startswith(who) or f"of {who}" in reason else f"{who}: {reason}"
        self.last_reason[who] = text
        now = time.monotonic()
        if now < self._warn_at[who]:
            self._unsaid[who] += 1
            return
        more = f" ({self._unsaid[who]} more refused since the last warning)"
        self._logger.warning(f"target refused: {text}{more if self._unsaid[who] else ''}")
        self._warn_at[who] = now + WARN_PERIOD
        self._unsaid[who] = 0
