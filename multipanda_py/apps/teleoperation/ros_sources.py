# SPDX-License-Identifier: Apache-2.0
"""An arm of another cell leads, and feels what the arms that follow it touch."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.apps.teleoperation.source import GripperWish, HandCommand, Touch
from multipanda_py.control.teleoperation import ForceReflection
from multipanda_py.exceptions import ConfigurationError, SourceLost, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.child_process import LineProcess
from multipanda_py.registry import require
from multipanda_py.state import Vector

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
        self._listen(
            arms, frame, "multipanda_py.ros.client.device_listener", self._root or "/", *arms
        )

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


DEADBAND = (2.0, 0.4)
"""Less than about this is an error of the estimate, and not felt [N, Nm]."""
MOST = (15.0, 2.0)
"""Sent at most, after the gain [N, Nm]."""
FILTER = 0.03
"""Time constant of the filter, beside samples that are 10 to 50 ms apart [s]."""
FADE_IN, FADE_OUT = 0.5, 0.2
"""From nothing to all after the clutch has closed, and back once it is open [s]."""
_AXES = np.eye(3)


class WrenchFeedback:
    r"""Filter, scale, bound and fade a wrench.

    .. math::
        F_{back} = \rho\, F_{fb}, \qquad \dot \rho = 1/t_{in}
        \text{ while the clutch is closed}, \quad -1/t_{out} \text{ else}

    with :math:`F_{fb}` of :class:`.ForceReflection`:
    filtered, without a deadband, times a gain and bounded. The gain is
    :math:`g \min(1, \alpha)` for forces, with :math:`\alpha` the scale of motion, and g for
    torques. This alone is not passive: what keeps the energy that comes back in bounds is at the
    leader (:class:`.FeltWrench`), where delay cannot hide it.

    Args:
        feedback: g, 0 to 1.

    Attributes:
        share: :math:`\rho`.

    Raises:
        ConfigurationError: If g is not allowed.
    """

    def __init__(self, feedback: float) -> None:
        if not 0.0 <= feedback <= 1.0:
            raise ConfigurationError(f"feedback: got {feedback:g}, allowed [0, 1]")
        self._feedback, self.share = feedback, 0.0
        self._reflection = ForceReflection()

    def of(self, touch: Touch) -> Vector:
        """Return what is to be sent, (6,) [N, Nm]."""
        reflection = self._reflection
        if self.share == 0.0:
            reflection.reset()
        step = touch.seconds / (FADE_IN if touch.is_following else -FADE_OUT)
        self.share = min(1.0, max(0.0, self.share + step))
        if not np.isfinite(touch.wrench).all():
            self.share = 0.0
            return np.zeros(6)
        reflection.set_filter(FILTER, touch.seconds)
        force, torque = (
            (dead, most / gain if gain > 0.0 else 0.0, gain)
            for dead, most, gain in zip(
                DEADBAND, MOST, (self._feedback * min(1.0, touch.scale), self._feedback)
            )
        )
        reflection.set_shape(force, torque)
        found: Vector = self.share * reflection.feel(touch.wrench, _AXES)
        return found


_PLACE = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
_HEARD = {"pose": "current_pose"}


class Leader(RosStreams):
    """Follow an arm that is led by hand in another cell, as the topics of that cell say.

    Of a leader at ``/north/left`` these are ``/north/left/current_pose``, and of whoever has the
    pedal ``/north/left/clutch`` and ``/north/left/gripper`` (Bool), both remembered. What the
    follower feels goes back as ``/north/left/target_felt_wrench``, if it is asked for: to a law
    with the feature ``felt_wrench`` and to no other, as that keeps the account of its energy and
    does not go on with a wrench that has become old.

    Args:
        leaders: The place of the leader of each arm.
        feedback: Share of the wrench that goes back, 0 to 1.
        frame: Along whose axes the follower moves as the leader does along those of its base: as
            in :class:`.HandCommand`.
        say: Takes a sentence for the user.

    Raises:
        ConfigurationError: If a place is no name of ROS, or the feedback not allowed.
        MissingExtra: If there is no ROS 2.

    Thread: one.
    """

    name = "leader"

    def __init__(
        self,
        leaders: Mapping[str, str],
        feedback: float = 0.0,
        frame: str = "",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._places = {arm: f"/{place.strip('/')}" for arm, place in leaders.items()}
        for place in self._places.values():
            if not _PLACE.fullmatch(place):
                raise ConfigurationError(
                    f"leader: got {place!r}, allowed a namespace and an arm, as /north/left"
                )
        self._feedback = {arm: WrenchFeedback(feedback) for arm in leaders} if feedback else {}
        self._say, self._takers, self._told = say, dict.fromkeys(leaders, -1), set[str]()
        pairs = [text for pair in self._places.items() for text in pair]
        self._listen(tuple(leaders), frame, "multipanda_py.ros.client.leader_link", *pairs)

    def feel(self, arm: str, touch: Touch) -> None:
        """Send a leader what the arm that follows it feels."""
        if arm not in self._feedback:
            return
        wrench = self._feedback[arm].of(touch)
        if touch.is_following and self._takers[arm] == 0 and arm not in self._told:
            self._told.add(arm)
            self._say(
                f"{arm}: nothing is fed back: nobody listens to "
                f"{self._places[arm]}/target_felt_wrench; give the law of the leader the feature "
                "felt_wrench"
            )
        until = time.monotonic() + SILENCE
        said = {"arm": arm, "wrench": wrench.tolist(), "until": until}
        self.listener.tell_now(json.dumps(said))  # if it has ended, read says so

    def _topic(self, arm: str, kind: str) -> str:
        return f"{self._places[arm]}/{_HEARD.get(kind, kind)}"

    def _take(self, said: dict[str, Any]) -> None:
        if said["kind"] == "takers":
            self._takers[said["arm"]] = said["value"]
        else:
            super()._take(said)
