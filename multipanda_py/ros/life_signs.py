# SPDX-License-Identifier: Apache-2.0
"""Whether those who move arms by hand are still there."""

from __future__ import annotations

import contextlib
import time

from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError, TargetRejected
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import every

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
