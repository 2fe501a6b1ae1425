# SPDX-License-Identifier: Apache-2.0
"""Teleoperation over ROS: device topics, or a leader arm of another cell with force feedback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.apps.teleoperation.source import DeviceCommand, ExternalWrench, GripperRequest
from multipanda_py.control.teleoperation import ForceReflection
from multipanda_py.exceptions import ConfigurationError, SourceLost, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.child_process import JsonLinesChild
from multipanda_py.registry import require
from multipanda_py.state import Vector

TIMEOUT = 0.25
"""Time without a pose or twist after which the arm holds [s]."""


@dataclass
class _Stream:
    kind: str = ""
    value: Any = None
    time: float = -1e9
    is_engaged: bool = False
    gripper: GripperRequest = ""
    conflict: str = ""


class RosStreams:
    """Input device that sends poses or twists as ROS messages.

    Topics of an arm in ``NAMESPACE/ARM``:

    - ``pose`` (PoseStamped), ``twist`` (TwistStamped) and ``cmd_vel`` (Twist) move the arm. The
    newest message counts.
    - ``clutch`` (Bool) closes the clutch if true, and opens it if false.
    - ``gripper`` (Bool) closes the gripper if true, and opens it if false.

    An arm does not move if one of its topics has two publishers.

    Args:
        arms: Arms to move.
        namespace: Namespace of the topics.
        frame: Frame of poses and twists, as in :class:`.DeviceCommand`, instead of those in
            message headers.

    Attributes:
        inputs: Newest input for each arm.
        listener: Child process with the ROS node that subscribes.

    Raises:
        MissingExtra: ROS 2 is not installed.

    Thread: one.
    """

    name = "ros"

    def __init__(self, arms: Sequence[str], namespace: str = "hand", frame: str = "") -> None:
        self._root = f"/{namespace.strip('/')}".rstrip("/")
        self._listen(arms, frame, "devices", self._root or "/", *arms)

    def _listen(self, arms: Sequence[str], frame: str, *arguments: str) -> None:
        require("rclpy", "geometry_msgs", "std_msgs")
        self.arms, self._frame = tuple(arms), frame
        self.inputs = {arm: _Stream() for arm in self.arms}
        self.listener = JsonLinesChild("multipanda_py.ros.client.teleoperation_link", *arguments)

    def read(self) -> Mapping[str, DeviceCommand]:
        """Return the command of every arm from its newest messages.

        Raises:
            SourceLost: The subscriber node has ended.
        """
        for line in self.listener.lines():
            self._take(json.loads(line))
        if not self.listener.is_alive:
            raise SourceLost("the subscriber node has ended")
        return {arm: self._command(arm, received) for arm, received in self.inputs.items()}

    def close(self) -> None:
        """Stop the subscriber node."""
        self.listener.close()

    def _topic(self, arm: str, kind: str) -> str:
        return f"{self._root}/{arm}/{kind}"

    def _take(self, message: dict[str, Any]) -> None:
        received = self.inputs[message["arm"]]
        if message["kind"] == "clutch":
            received.is_engaged = message["value"]
        elif message["kind"] == "gripper":
            received.gripper = "close" if message["value"] else "open"
        elif message["kind"] == "crowd":
            received.conflict = message["value"]
        else:
            received.kind, received.value, received.time = (
                message["kind"],
                message["value"],
                message["time"],
            )

    def _command(self, arm: str, received: _Stream) -> DeviceCommand:
        grip, received.gripper = received.gripper, ""
        if not received.is_engaged:
            return DeviceCommand(gripper=grip)
        if received.conflict:
            return DeviceCommand(problem=f"{received.conflict}, allowed 1")
        if (age := time.monotonic() - received.time) > TIMEOUT:
            topic = self._topic(arm, received.kind or "pose")
            for_long = f"for {TIMEOUT:g} s" if age < 1e6 else "yet"
            return DeviceCommand(problem=f"no message on {topic} {for_long}")
        if received.kind == "twist":
            return DeviceCommand(True, received.value, frame=self._frame, gripper=grip)
        try:
            pose = Pose.from_quaternion(received.value[:3], received.value[3:])
        except TargetRejected as error:
            return DeviceCommand(problem=f"{self._topic(arm, 'pose')}: {error}")
        return DeviceCommand(True, pose=pose, frame=self._frame, gripper=grip)


DEADBAND = (2.0, 0.4)
"""Deadband of the feedback, the typical error of the wrench estimate [N, Nm]."""
MAX_FORCE_AND_TORQUE = (15.0, 2.0)
"""Maximum feedback after the gain [N, Nm]."""
FILTER_TIME = 0.03
"""Time constant of the low-pass filter [s]; samples are 10 to 50 ms apart."""
FADE_IN, FADE_OUT = 0.5, 0.2
"""Duration of the fade-in after the clutch closes and of the fade-out after it opens [s]."""
_AXES = np.eye(3)


class WrenchFeedback:
    r"""Force feedback to a leader arm, computed from the external wrench of the follower arm.

    The feedback wrench is

    .. math:: F_{back} = \rho\, F_{fb}, \qquad 0 \le \rho \le 1.

    :class:`.ForceReflection` computes :math:`F_{fb}`: the low-pass filtered external wrench,
    reduced by a deadband, scaled and limited. The gain is g for torques and :math:`g \min(1,
    \alpha)` for forces, where :math:`\alpha` is the translation of the follower per translation of
    the leader.

    The factor :math:`\rho` rises at the rate 1 / :data:`FADE_IN` while the clutch is closed, and
    falls at 1 / :data:`FADE_OUT` while it is open.

    This feedback alone is not passive. :class:`.FeedbackWrench` in the leader's controllet bounds
    the energy that returns to the operator.

    Args:
        feedback: Gain g, 0 to 1.

    Attributes:
        fade: Factor :math:`\rho`.

    Raises:
        ConfigurationError: The gain is out of range.
    """

    def __init__(self, feedback: float) -> None:
        if not 0.0 <= feedback <= 1.0:
            raise ConfigurationError(f"feedback: got {feedback:g}, allowed [0, 1]")
        self._feedback, self.fade = feedback, 0.0
        self._reflection = ForceReflection()

    def compute(self, external_wrench: ExternalWrench) -> Vector:
        """Return the feedback wrench for the leader, (6,) [N, Nm].

        Call this method once for each new external wrench of the follower.
        """
        reflection = self._reflection
        if self.fade == 0.0:
            reflection.reset()
        step = external_wrench.seconds / (FADE_IN if external_wrench.is_following else -FADE_OUT)
        self.fade = min(1.0, max(0.0, self.fade + step))
        if not np.isfinite(external_wrench.wrench).all():
            self.fade = 0.0
            return np.zeros(6)
        reflection.set_filter(FILTER_TIME, external_wrench.seconds)
        force, torque = (
            (dead, max_value / gain if gain > 0.0 else 0.0, gain)
            for dead, max_value, gain in zip(
                DEADBAND,
                MAX_FORCE_AND_TORQUE,
                (self._feedback * min(1.0, external_wrench.scale), self._feedback),
            )
        )
        reflection.set_shape(force, torque)
        result: Vector = self.fade * reflection.filter(external_wrench.wrench, _AXES)
        return result


_ROS_NAME = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
_TOPIC_NAMES = {"pose": "current_pose"}


class Leader(RosStreams):
    """Leader arms in another cell, guided by an operator, as input devices.

    For a leader ``/north/left``, its cell publishes ``/north/left/current_pose``; a pedal
    publishes ``/north/left/clutch`` and ``/north/left/gripper`` (Bool). Feedback is sent to
    ``/north/left/target_feedback_wrench``, which needs the feature ``feedback_wrench`` of the
    leader's controllet.

    Args:
        leaders: Topic prefix of the leader, such as ``/north/left``, by name of the arm that
            follows.
        feedback: Gain of the wrench feedback, 0 to 1; 0 for no feedback.
        frame: Frame in the follower's cell, as in :class:`.DeviceCommand`, along whose axes the
            follower repeats motions along the axes of the leader's base.
        report: Callback for messages to the user.

    Raises:
        ConfigurationError: A prefix is not a valid ROS name, or the feedback is out of range.
        MissingExtra: ROS 2 is not installed.

    Thread: one.
    """

    name = "leader"

    def __init__(
        self,
        leaders: Mapping[str, str],
        feedback: float = 0.0,
        frame: str = "",
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._namespaces = {arm: f"/{namespace.strip('/')}" for arm, namespace in leaders.items()}
        for path in self._namespaces.values():
            if not _ROS_NAME.fullmatch(path):
                raise ConfigurationError(
                    f"leader: got {path!r}, allowed a namespace and an arm, such as /north/left"
                )
        self._feedback = {arm: WrenchFeedback(feedback) for arm in leaders} if feedback else {}
        self._log, self._subscriber_counts, self._reported = (
            report,
            dict.fromkeys(leaders, -1),
            set[str](),
        )
        pairs = [text for pair in self._namespaces.items() for text in pair]
        self._listen(tuple(leaders), frame, "leaders", *pairs)

    def apply_wrench(self, arm: str, external_wrench: ExternalWrench) -> None:
        """Send the feedback wrench to the leader of an arm, if feedback is enabled."""
        if arm not in self._feedback:
            return
        wrench = self._feedback[arm].compute(external_wrench)
        if (
            external_wrench.is_following
            and self._subscriber_counts[arm] == 0
            and arm not in self._reported
        ):
            self._reported.add(arm)
            self._log(
                f"{arm}: no force feedback, since there is no subscriber of "
                f"{self._namespaces[arm]}/target_feedback_wrench. Add the feature "
                f"feedback_wrench to "
                "the controllet of the leader."
            )
        until = time.monotonic() + TIMEOUT
        message = {"arm": arm, "wrench": wrench.tolist(), "until": until}
        # If the child process has ended, the next read() reports it.
        self.listener.send_nowait(json.dumps(message))

    def _topic(self, arm: str, kind: str) -> str:
        return f"{self._namespaces[arm]}/{_TOPIC_NAMES.get(kind, kind)}"

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] == "takers":
            self._subscriber_counts[message["arm"]] = message["value"]
        else:
            super()._take(message)
