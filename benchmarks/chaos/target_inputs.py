# SPDX-License-Identifier: Apache-2.0
"""Invalid and malformed targets, and the counters of the node for them."""

from __future__ import annotations

import copy
import time
from itertools import zip_longest
from typing import Any

from client import Client
from draw import NUMBERS, TEXTS, draw
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from stage import Program, Stage
from std_msgs.msg import Float64MultiArray

TOPICS = {
    "target_pose": PoseStamped,
    "target_joint": JointState,
    "target_twist": TwistStamped,
    "target_wrench": WrenchStamped,
    "target_stiffness": Float64MultiArray,
}
PACE = 0.002
"""Initial time between messages [s]. The subscription has a queue of one message."""
MAX_PACE = 16 * PACE
MAX_MOTION = 2e-3  # of a joint while all targets are rejected [rad]
INVALID = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e3, -1e3])
BATCH = 250
SPARE = 5
"""Messages that may be lost in addition to half of a batch, for small batches."""


def invalid_poses(pose: PoseStamped) -> st.SearchStrategy[PoseStamped]:
    """Return poses near that of an arm with one invalid field."""

    def change(how: str, value: float, axis: str, text: str) -> PoseStamped:
        message = copy.deepcopy(pose)
        message.header.stamp.sec = 0
        if how == "number":
            setattr(message.pose.position, axis, value)
        elif how == "rotation":
            message.pose.orientation.w = value
        elif how == "zero":
            message.pose.orientation = type(message.pose.orientation)(w=0.0)
        elif how == "frame":
            message.header.frame_id = f"no {text}"
        elif how == "late":
            message.header.stamp.sec = 1 + int(min(abs(value), 1e9)) if value == value else 1
        else:
            message.header.stamp.sec = int(time.time()) + 60
        return message

    changes = st.sampled_from(["number", "rotation", "zero", "frame", "late", "future"])
    return st.builds(change, changes, INVALID, st.sampled_from("xyz"), TEXTS)


def invalid_joints(state: JointState) -> st.SearchStrategy[JointState]:
    """Return joint targets with one invalid field."""

    def change(how: str, value: float, joint: int, text: str) -> JointState:
        message = JointState(name=list(state.name), position=list(state.position))
        if how == "number":
            message.position[joint] = value
        elif how == "rate":
            message.velocity = [value] * 7
        elif how == "short":
            message.position = message.position[:joint]
        elif how == "name":
            message.name[joint] = f"no {text}"
        elif how == "twice":
            message.name[joint] = message.name[joint - 1]
        else:
            message.name = message.name[:joint]
        return message

    changes = st.sampled_from(["number", "rate", "short", "name", "twice", "fewer"])
    return st.builds(change, changes, INVALID, st.integers(0, 6), TEXTS)


def invalid_vectors(kind: Any, part: str) -> st.SearchStrategy[Any]:
    """Return twists or wrenches with a component that is too large or not finite."""

    def change(value: float, axis: str, index: int) -> Any:
        message = kind()
        fields = ("linear", "angular") if part == "twist" else ("force", "torque")
        setattr(getattr(getattr(message, part), fields[index]), axis, value)
        return message

    return st.builds(change, INVALID, st.sampled_from("xyz"), st.integers(0, 1))


def invalid_stiffness() -> st.SearchStrategy[Float64MultiArray]:
    """Return a stiffness of a wrong size or with an invalid element."""
    sizes = st.lists(NUMBERS, max_size=40).filter(lambda v: len(v) not in (6, 36))
    elements = st.builds(
        lambda value, i: [*[100.0] * i, -abs(value), *[100.0] * (5 - i)],
        INVALID,
        st.integers(0, 5),
    )
    return st.one_of(sizes, elements).map(lambda values: Float64MultiArray(data=values))


def malformed(message: Any) -> st.SearchStrategy[bytes]:
    """Return serialized messages that are truncated or have changed bytes."""
    whole = bytes(serialize_message(message))

    def change(how: str, indices: list[int], values: bytes) -> bytes:
        data = bytearray(whole)
        if how == "cut":
            return bytes(data[: indices[0] % len(data)])
        if how == "noise":
            return bytes(data[:4]) + values
        if how == "length":  # of the first string, far beyond the end
            data[12:16] = b"\xff\xff\xff" + values[:1]
            return bytes(data)
        for index, value in zip(indices, values):
            data[index % len(data)] = value
        return bytes(data)

    changes = st.sampled_from(["cut", "noise", "length", "flip"])
    indices = st.lists(st.integers(0, 4095), min_size=1, max_size=8)
    return st.builds(change, changes, indices, st.binary(min_size=8, max_size=200))


class Targets:
    """Invalid targets for the left arm, which must count them and not move."""

    def __init__(self, stage: Stage, client: Client, node: Program, number: int) -> None:
        self.stage, self.client, self.node, self.number = stage, client, node, number
        self.pose = client.newest(PoseStamped, "left/current_pose")
        self.joints = client.newest(JointState, "left/joint_states")
        self._before = self._counters()
        self._pace = PACE

    def invalid(self, count: int) -> None:
        """Send well-formed targets that the node must reject."""
        strategies = {
            "target_pose": invalid_poses(self.pose),
            "target_joint": invalid_joints(self.joints),
            "target_twist": invalid_vectors(TwistStamped, "twist"),
            "target_wrench": invalid_vectors(WrenchStamped, "wrench"),
            "target_stiffness": invalid_stiffness(),
        }
        self._send("invalid targets", strategies, count, True)

    def malformed(self, count: int) -> None:
        """Send malformed messages, some of which are valid by chance."""
        samples = {
            "target_pose": self.pose,
            "target_joint": JointState(name=self.joints.name, position=self.joints.position),
            "target_twist": TwistStamped(),
            "target_wrench": WrenchStamped(),
            "target_stiffness": Float64MultiArray(data=[100.0] * 6),
        }
        strategies = {topic: malformed(sample) for topic, sample in samples.items()}
        self._send("targets as malformed CDR", strategies, count, False)

    def _send(self, kind: str, strategies: dict[str, Any], count: int, all_invalid: bool) -> None:
        """Send batches of messages, alternating between topics."""
        per_topic = -(-count // len(strategies))
        self.number += 1
        drawn = [
            [(topic, message) for message in draw(strategy, per_topic, self.number)]
            for topic, strategy in strategies.items()
        ]
        messages = [item for items in zip_longest(*drawn) for item in items if item is not None]
        for begin in range(0, len(messages), BATCH):
            self._send_batch(kind, messages[begin : begin + BATCH], all_invalid)

    def _send_batch(self, kind: str, messages: list[tuple[str, Any]], all_invalid: bool) -> None:
        stage, ledger = self.stage, self.stage.ledger
        for topic in TOPICS:
            self.client.publisher(TOPICS[topic], f"left/{topic}")
        stage.watcher.request("mark")
        for topic, message in messages:
            self.client.publisher(TOPICS[topic], f"left/{topic}").publish(message)
            time.sleep(self._pace)
        before, after = self._before, self._counters()
        self._before = after
        moved = max(stage.watcher.request("moved").values())
        received, refused, caught = (after[key] - before[key] for key in after)
        ledger.count(kind, len(messages), refused)
        ledger.expect(self.node.runs, kind, "the node has ended")
        ledger.expect(caught == 0, kind, f"{caught} exceptions in callbacks")
        if received < 0.5 * len(messages) - SPARE:
            self._increase_pace(kind, f"{received} of {len(messages)} messages received")
        if all_invalid:
            ledger.expect(received == refused, kind,
                          f"{received} received, {refused} counted as rejected")  # fmt: skip
        if received == refused:
            ledger.expect(moved < MAX_MOTION, kind, f"a joint moved by {moved:.4f} rad")
        stage.judge(kind)

    def _increase_pace(self, kind: str, text: str) -> None:
        """Send the next batches more slowly; record a failure at the maximum pace."""
        if self._pace >= MAX_PACE:
            self.stage.ledger.fail(kind, text)
        else:
            self._pace *= 2.0
            self.stage.ledger.void(kind, len(self.stage.ledger.broke[kind]))

    def _counters(self) -> dict[str, int]:
        """Return the counters of the node in /diagnostics."""
        loop = self.stage.watcher.status(self.stage.name)
        arm = self.stage.watcher.request("statuses")[f"{self.stage.name}/left"]
        return {
            "received": int(arm["target messages"]),
            "refused": int(arm["rejected targets"]),
            "caught": int(loop["exceptions in callbacks"]),
        }
