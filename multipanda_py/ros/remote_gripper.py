# SPDX-License-Identifier: Apache-2.0
"""A hand of a running node, which opens and closes by services."""

from __future__ import annotations

import math
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.exceptions import TargetRejected, TopicLost
from multipanda_py.gripper_record import Action, Outcome
from multipanda_py.grippers.gripper import (
    Gripper,
    GripperCommand,
    GripperMotion,
    GripperResult,
    GripperState,
)
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.remote_arm import RemoteArm

_APART = 1e-3
"""Fingers that are further apart after they have closed hold something [m]."""


class RemoteGripper(Gripper):
    """Open a hand, close it around what is there, or stop it; the newest command counts.

    Args:
        link: Asks.
        root: Namespace of the cell.
        arm: Measures.
        description: What the hand can do.
    """

    def __init__(
        self, link: NodeLink, root: str, arm: RemoteArm, description: ParallelGripper
    ) -> None:
        super().__init__(arm.name, description)
        self._link, self._measured = link, arm
        self._root = f"{root}/{arm.name}/gripper"
        for name in ("open", "close", "stop"):
            link.offer(Trigger, f"{self._root}/{name}")
        self._motion: GripperMotion | None = None

    def state(self) -> GripperState:
        """Return what was measured last."""
        motion, width = self._motion, self._measured.width
        closed = motion is not None and motion.command.action is Action.GRASP and motion.done
        return GripperState(
            width, self.description.max_width, closed and width > _APART,
            motion is not None and not motion.done,
        )  # fmt: skip

    def start(self, command: GripperCommand) -> GripperMotion:
        """Begin to open, to close around whatever is there, or to stop.

        Raises:
            TargetRejected: If it is another command.
            TopicLost: If the node does not offer it.
        """
        names = {Action.MOVE: "open", Action.GRASP: "close", Action.STOP: "stop"}
        name = names.get(command.action, "")
        if not name or (name == "open" and command.width < self.description.max_width - _APART):
            raise TargetRejected(
                f"gripper of {self.arm}: got {command}, allowed to open, to close and to stop"
            )
        service = f"{self._root}/{name}"
        if not self._link.is_found(service):
            raise TopicLost(f"service {service}: not there")
        call = self._link.call(service, Trigger.Request(), self._read, math.inf)
        self._motion = GripperMotion(command, call.look, self._wait)
        return self._motion

    def _read(self, answer: Any) -> GripperResult:
        done = Outcome.SUCCEEDED if answer.success else Outcome.UNSUCCESSFUL
        return GripperResult(done, self._measured.width, answer.message)

    def _wait(self, condition: Any, timeout: float, what: str) -> None:
        if not self._link.until(condition, timeout):
            raise TopicLost(f"gripper of {self.arm}: {what} did not come within {timeout:g} s")
