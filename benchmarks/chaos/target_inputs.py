# SPDX-License-Identifier: Apache-2.0
"""Targets that must be refused, well-formed and not, and how much of them is counted."""

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
"""Between messages, as a subscription keeps the newest one only [s]."""
SLOWEST = 16 * PACE
STILL = 2e-3  # of a joint of an arm that nobody moves [rad]
BAD = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e3, -1e3])
BATCH = 250
SPARE = 5
"""Messages that may be lost beyond half of a batch: a handful says nothing of a rate."""


def bad_pose(here: PoseStamped) -> st.SearchStrategy[PoseStamped]:
    """Poses near an arm's with one thing wrong that no law takes."""

    def spoil(how: str, bad: float, axis: str, text: str) -> PoseStamped:
        message = copy.deepcopy(here)
        message.header.stamp.sec = 0
        if how == "number":
            setattr(message.pose.position, axis, bad)
        elif how == "turn":
            message.pose.orientation.w = bad
        elif how == "zero":
            message.pose.orientation = type(message.pose.orientation)(w=0.0)
        elif how == "frame":
            message.header.frame_id = f"no {text}"
        elif how == "late":
            message.header.stamp.sec = 1 + int(min(abs(bad), 1e9)) if bad == bad else 1
        else:
            message.header.stamp.sec = int(time.time()) + 60
        return message

    ways = st.sampled_from(["number", "turn", "zero", "frame", "late", "future"])
    return st.builds(spoil, ways, BAD, st.sampled_from("xyz"), TEXTS)


def bad_joints(here: JointState) -> st.SearchStrategy[JointState]:
    """Postures with one thing wrong."""

    def spoil(how: str, bad: float, joint: int, text: str) -> JointState:
        message = JointState(name=list(here.name), position=list(here.position))
        if how == "number":
            message.position[joint] = bad
        elif how == "rate":
            message.velocity = [bad] * 7
        elif how == "short":
            message.position = message.position[:joint]
        elif how == "name":
            message.name[joint] = f"no {text}"
        elif how == "twice":
            message.name[joint] = message.name[joint - 1]
        else:
            message.name = message.name[:joint]
        return message

    ways = st.sampled_from(["number", "rate", "short", "name", "twice", "fewer"])
    return st.builds(spoil, ways, BAD, st.integers(0, 6), TEXTS)


def bad_vectors(kind: Any, part: str) -> st.SearchStrategy[Any]:
    """Twists or wrenches with a number that is too large or none."""

    def spoil(bad: float, axis: str, which: int) -> Any:
        message = kind()
        fields = ("linear", "angular") if part == "twist" else ("force", "torque")
        setattr(getattr(getattr(message, part), fields[which]), axis, bad)
        return message

    return st.builds(spoil, BAD, st.sampled_from("xyz"), st.integers(0, 1))


def bad_stiffness() -> st.SearchStrategy[Float64MultiArray]:
    """Stiffness of a wrong size, or with a number that no law takes."""
    sizes = st.lists(NUMBERS, max_size=40).filter(lambda v: len(v) not in (6, 36))
    wrong = st.builds(lambda bad, i: [*[100.0] * i, -abs(bad), *[100.0] * (5 - i)], BAD,
                      st.integers(0, 5))  # fmt: skip
    return st.one_of(sizes, wrong).map(lambda values: Float64MultiArray(data=values))


def malformed(message: Any) -> st.SearchStrategy[bytes]:
    """Serialized messages that are cut short, or with bytes changed."""
    whole = bytes(serialize_message(message))

    def spoil(how: str, places: list[int], values: bytes) -> bytes:
        data = bytearray(whole)
        if how == "cut":
            return bytes(data[: places[0] % len(data)])
        if how == "noise":
            return bytes(data[:4]) + values
        if how == "length":  # of the first text: far beyond the end
            data[12:16] = b"\xff\xff\xff" + values[:1]
            return bytes(data)
        for place, value in zip(places, values):
            data[place % len(data)] = value
        return bytes(data)

    ways = st.sampled_from(["cut", "noise", "length", "flip"])
    places = st.lists(st.integers(0, 4095), min_size=1, max_size=8)
    return st.builds(spoil, ways, places, st.binary(min_size=8, max_size=200))


class Targets:
    """Throw targets at the left arm, which must not move, and compare the books."""

    def __init__(self, stage: Stage, client: Client, node: Program, number: int) -> None:
        self.stage, self.client, self.node, self.number = stage, client, node, number
        self.pose = client.newest(PoseStamped, "left/current_pose")
        self.joints = client.newest(JointState, "left/joint_states")
        self._before = self._books()
        self._pace = PACE

    def refused(self, count: int) -> None:
        """Throw well-formed targets that must be refused."""
        strategies = {
            "target_pose": bad_pose(self.pose),
            "target_joint": bad_joints(self.joints),
            "target_twist": bad_vectors(TwistStamped, "twist"),
            "target_wrench": bad_vectors(WrenchStamped, "wrench"),
            "target_stiffness": bad_stiffness(),
        }
        self._throw("invalid targets", strategies, count, True)

    def malformed(self, count: int) -> None:
        """Throw bytes that are no messages, or by luck are."""
        samples = {
            "target_pose": self.pose,
            "target_joint": JointState(name=self.joints.name, position=self.joints.position),
            "target_twist": TwistStamped(),
            "target_wrench": WrenchStamped(),
            "target_stiffness": Float64MultiArray(data=[100.0] * 6),
        }
        strategies = {topic: malformed(sample) for topic, sample in samples.items()}
        self._throw("targets as malformed CDR", strategies, count, False)

    def _throw(self, kind: str, strategies: dict[str, Any], count: int, all_wrong: bool) -> None:
        """Throw batches of messages to all topics in turn."""
        share = -(-count // len(strategies))
        self.number += 1
        drawn = [
            [(topic, message) for message in draw(strategy, share, self.number)]
            for topic, strategy in strategies.items()
        ]
        turns = [item for items in zip_longest(*drawn) for item in items if item is not None]
        for begin in range(0, len(turns), BATCH):
            self._batch(kind, turns[begin : begin + BATCH], all_wrong)

    def _batch(self, kind: str, messages: list[tuple[str, Any]], all_wrong: bool) -> None:
        stage, ledger = self.stage, self.stage.ledger
        for topic in TOPICS:
            self.client.publisher(TOPICS[topic], f"left/{topic}")
        stage.outsider.ask("mark")
        for topic, message in messages:
            self.client.publisher(TOPICS[topic], f"left/{topic}").publish(message)
            time.sleep(self._pace)
        before, after = self._before, self._books()
        self._before = after
        moved = max(stage.outsider.ask("moved").values())
        received, refused, caught = (after[key] - before[key] for key in after)
        ledger.throw(kind, len(messages), refused)
        ledger.expect(self.node.runs, kind, "the node has ended")
        ledger.expect(caught == 0, kind, f"{caught} exceptions in callbacks")
        if received < 0.5 * len(messages) - SPARE:
            self._slower(kind, f"only {received} of {len(messages)} were received")
        if all_wrong:
            ledger.expect(received == refused, kind,
                          f"{received} received, {refused} counted as refused")  # fmt: skip
        if received == refused:
            ledger.expect(moved < STILL, kind, f"a joint moved by {moved:.4f} rad")
        stage.judge(kind)

    def _slower(self, kind: str, text: str) -> None:
        """Give a busy machine more time from here on; who loses messages even then, is broken."""
        if self._pace >= SLOWEST:
            self.stage.ledger.fail(kind, text)
        else:
            self._pace *= 2.0
            self.stage.ledger.spoil(kind, len(self.stage.ledger.broke[kind]))

    def _books(self) -> dict[str, int]:
        """Return what the node has counted."""
        loop = self.stage.outsider.status(self.stage.name)
        arm = self.stage.outsider.ask("statuses")[f"{self.stage.name}/left"]
        return {
            "received": int(arm["target messages"]),
            "refused": int(arm["rejected targets"]),
            "caught": int(loop["exceptions in callbacks"]),
        }
