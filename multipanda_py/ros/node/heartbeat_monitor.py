# SPDX-License-Identifier: Apache-2.0
"""Hold of the arms that a client moves, if its heartbeats stop."""

from __future__ import annotations

import contextlib
import time

from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError, TargetRejected
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.running import every

HEARTBEAT_TOPIC = "heartbeat"
LEASE_DURATION = 0.5
"""Time without a heartbeat of a client after which the arms that it moves hold [s]."""
CHECK_PERIOD = 0.05
"""Period of the timeout check [s]."""
MAX_CLIENTS = 100
"""Maximum number of senders whose heartbeats are stored."""
HEARTBEAT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class HeartbeatMonitor:
    """Monitor that lets arms hold if the client that moves them is killed or loses its network.

    A client starts it by messages on ``heartbeat``, several per :data:`LEASE_DURATION`: its name
    and those of the moved arms, separated by spaces. A message without arms ends it. An arm that
    is not monitored moves to its newest target, even if the sender has ended.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        self._moving: dict[str, tuple[float, list[str]]] = {}
        node.create_subscription(String, HEARTBEAT_TOPIC, self._take, HEARTBEAT_QOS)
        every(node, CHECK_PERIOD, self._poll)

    def _take(self, message: String) -> None:
        sender, *names = message.data.split()[: 1 + len(self._cell.arms)] or [""]
        arms = [name for name in names if name in self._cell.arms]
        self._moving.pop(sender, None)
        if arms and len(self._moving) < MAX_CLIENTS:
            self._moving[sender] = time.monotonic(), arms

    def _poll(self) -> None:
        now = time.monotonic()
        for sender, (received, arms) in list(self._moving.items()):
            if now > received + LEASE_DURATION:
                del self._moving[sender]
                for arm in arms:
                    self._hold(arm, sender)

    def _hold(self, arm: str, sender: str) -> None:
        reason = f"no heartbeat for {LEASE_DURATION:g} s from {sender!r:.60}, which moved it"
        try:
            self._stop_by_accepted_target(arm)
        except MultipandaError as error:
            # The controllet accepts none of the targets, or the loop is stalled.
            self._logger.warning(f"{arm} cannot be stopped: {error}. Reason of the stop: {reason}")
        else:
            self._logger.warning(f"{arm} holds: {reason}")

    def _stop_by_accepted_target(self, arm: str) -> None:
        # An empty trajectory is tried first, because it brakes a moving arm along its path. With
        # the measured pose as target, the arm overshoots and moves back.
        with contextlib.suppress(TargetRejected):
            return self._cell.follow_trajectory(arm, [])
        here = self._cell.state(arm).q
        for target in ({"pose": self._cell.pose(arm)}, {"q": here}):
            with contextlib.suppress(TargetRejected):
                return self._cell.set_target(arm, **target)
        return self._cell.set_target(arm, dq=0.0 * here)
