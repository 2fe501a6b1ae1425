# SPDX-License-Identifier: Apache-2.0
"""Subscriptions through which users ask arms to move."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from multipanda_py.cell import Cell
from multipanda_py.exceptions import TargetRejected
from multipanda_py.ros.conversions import check_age, joint_names, read_joints, read_pose

QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Asks for the least, so that every publisher matches; only the newest target counts."""
WARN_PERIOD = 1.0
"""Shortest time between two warnings about the same arm [s]."""


class Targets:
    """``<arm>/target_pose`` and ``<arm>/target_joint`` of every arm.

    Attributes:
        received: Messages so far, by arm.
        last_reason: Why a target was refused last, by arm.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell, max_age: float) -> None:
        self._cell, self._max_age = cell, max_age
        self._clock, self._logger = node.get_clock(), node.get_logger()
        self._names = {arm: joint_names(cell.config, arm) for arm in cell.arms}
        self.received: Counter[str] = Counter()
        self.last_reason: dict[str, str] = {}
        self._warn_at = dict.fromkeys(cell.arms, 0.0)
        self._unsaid: Counter[str] = Counter()
        for arm in cell.arms:
            node.create_subscription(
                PoseStamped, f"{arm}/target_pose", partial(self._on_pose, arm), QOS, raw=True
            )
            node.create_subscription(
                JointState, f"{arm}/target_joint", partial(self._on_joints, arm), QOS
            )

    def _on_pose(self, arm: str, raw: bytes) -> None:
        self.received[arm] += 1
        try:
            stamped = read_pose(raw)
            check_age(stamped.stamp_ns, self._clock, self._max_age)
        except TargetRejected as error:
            self._cell.rejected[f"{arm} target"] += 1
            self._refuse(arm, f"{arm}: {error}")
            return
        try:
            self._cell.set_target(arm, stamped.pose, frame=stamped.frame)
        except TargetRejected as error:
            self._refuse(arm, str(error))

    def _on_joints(self, arm: str, message: JointState) -> None:
        self.received[arm] += 1
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        try:
            q, dq = read_joints(message, self._names[arm])
            check_age(stamp_ns, self._clock, self._max_age)
        except TargetRejected as error:
            self._cell.rejected[f"{arm} target"] += 1
            self._refuse(arm, f"{arm}: {error}")
            return
        try:
            self._cell.set_target(arm, q=q, dq=dq)
        except TargetRejected as error:
            self._refuse(arm, str(error))

    def _refuse(self, arm: str, reason: str) -> None:
        """Remember why, and say so at most once per ``WARN_PERIOD``; the cell has counted it."""
        self.last_reason[arm] = reason
        now = time.monotonic()
        if now < self._warn_at[arm]:
            self._unsaid[arm] += 1
            return
        more = f" ({self._unsaid[arm]} more refused since the last warning)"
        self._logger.warning(f"target refused: {reason}{more if self._unsaid[arm] else ''}")
        self._warn_at[arm] = now + WARN_PERIOD
        self._unsaid[arm] = 0
