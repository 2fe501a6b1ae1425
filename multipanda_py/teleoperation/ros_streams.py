# SPDX-License-Identifier: Apache-2.0
"""Hands that ROS knows of: a tracker, a phone, another program."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multipanda_py.exceptions import SourceLost, TargetRejected
from multipanda_py.extras import require
from multipanda_py.machine.line_process import LineProcess
from multipanda_py.pose import Pose
from multipanda_py.teleoperation.source import GripperWish, HandCommand

SILENCE = 0.25
"""A stream that pauses for longer is lost [s]."""


@dataclass
class _Heard:
    kind: str = ""
    value: Any = None
    time: float = -1e9
    is_engaged: bool = False
    gripper: GripperWish = ""
    crowd: str = ""


class RosStreams:
    """Follow ``NAMESPACE/ARM/pose`` (PoseStamped), or a twist, over ROS.

    Twists are ``twist`` (TwistStamped) or ``cmd_vel`` (Twist); of all three the newest counts.
    ``clutch`` (Bool) closes and opens the clutch, ``gripper`` (Bool) closes and opens the hand;
    both are remembered. A stream with two publishers moves nothing: between two devices that take
    turns the arm would go to and fro. A node in a process of its own listens, so that this one
    needs no ROS.

    Args:
        arms: Those that may be moved.
        namespace: Of the topics.
        frame: Along whose axes: as in :class:`.HandCommand`; frames in headers are not read,
            as those of trackers mean nothing to a cell.

    Attributes:
        inputs: Newest input for each arm.
        listener: Process that subscribes.

    Raises:
        MissingExtra: If there is no ROS 2.

    Thread: one.
    """

    name = "ros"

    def __init__(self, arms: Sequence[str], namespace: str = "hand", frame: str = "") -> None:
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._listen(arms, frame, "multipanda_py.ros.hand_listener", self._root or "/", *arms)

    def _listen(self, arms: Sequence[str], frame: str, module: str, *arguments: str) -> None:
        """Begin to listen by a node in a process of its own."""
        require("rclpy", "geometry_msgs", "std_msgs")
        self.arms, self._frame = tuple(arms), frame
        self.inputs = {arm: _Heard() for arm in self.arms}
        self.listener = LineProcess(module, *arguments)

    def read(self) -> Mapping[str, HandCommand]:
        """Return what was heard last of every arm.

        Raises:
            SourceLost: If the node that listens has ended.
        """
        for line in self.listener.lines():
            self._take(json.loads(line))
        if not self.listener.is_alive:
            raise SourceLost("the node that listens has ended")
        return {arm: self._command(arm, heard) for arm, heard in self.inputs.items()}

    def close(self) -> None:
        """End the node."""
        self.listener.close()

    def _topic(self, arm: str, kind: str) -> str:
        """Return where something is heard of an arm."""
        return f"{self._root}/{arm}/{kind}"

    def _take(self, said: dict[str, Any]) -> None:
        heard = self.inputs[said["arm"]]
        if said["kind"] == "clutch":
            heard.is_engaged = said["value"]
        elif said["kind"] == "gripper":
            heard.gripper = "close" if said["value"] else "open"
        elif said["kind"] == "crowd":
            heard.crowd = said["value"]
        else:
            heard.kind, heard.value, heard.time = said["kind"], said["value"], said["time"]

    def _command(self, arm: str, heard: _Heard) -> HandCommand:
        grip, heard.gripper = heard.gripper, ""
        if not heard.is_engaged:
            return HandCommand(gripper=grip)
        if heard.crowd:
            return HandCommand(problem=f"{heard.crowd}, allowed 1")
        if (silence := time.monotonic() - heard.time) > SILENCE:
            topic = self._topic(arm, heard.kind or "pose")
            for_long = f"for {SILENCE:g} s" if silence < 1e6 else "yet"
            return HandCommand(problem=f"nothing heard on {topic} {for_long}")
        if heard.kind == "twist":
            return HandCommand(True, heard.value, frame=self._frame, gripper=grip)
        try:
            pose = Pose.from_quaternion(heard.value[:3], heard.value[3:])
        except TargetRejected as error:
            return HandCommand(problem=f"{self._topic(arm, 'pose')}: {error}")
        return HandCommand(True, pose=pose, frame=self._frame, gripper=grip)
