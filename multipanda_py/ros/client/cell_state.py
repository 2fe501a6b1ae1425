# SPDX-License-Identifier: Apache-2.0
"""What a node says of its cell: the newest of every topic, read when it is asked for."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, WrenchStamped
from numpy.typing import NDArray
from rcl_interfaces.msg import Log
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, movable_things
from multipanda_py.config.node_names import NODE
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.ros.client.node_link import NodeLink
from multipanda_py.ros.node.conversions import read_numbers, read_pose
from multipanda_py.state import ArmSnapshot

REMEMBERED = 100
"""So many reports are kept for who asks late."""
LINES = QoSProfile(depth=100)
"""Of which none is to be missed, while somebody else's may come in between."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class ArmStatus(NamedTuple):
    """What is known of an arm beside its motion.

    Attributes:
        owner: Name of the law that has it.
        fault: Name of the latched fault, or an empty string.
        reason: Why, in words.
        refused: How many targets the node has refused.
        refusal: Why the last one.
        heard: When it was heard of, CLOCK_MONOTONIC [s].
        beginnings: How often a law has begun on it.
        hold_reason: Reason why it holds; empty while a controllet is active.
    """

    owner: str = ""
    fault: str = ""
    reason: str = ""
    refused: int = 0
    refusal: str = ""
    heard: float = -1e9
    beginnings: int = -1
    hold_reason: str = ""


@dataclass(frozen=True)
class Line(LoopEvent):
    """A line of the node's log, as it is."""

    def __str__(self) -> str:
        return self.text


class NodeStatus:
    """Follow the diagnostics of one cell, and remember what it has reported.

    Args:
        config: The cell.
        node: Hears.

    Attributes:
        active: Names of the instances that are active.
        arms: What is known of each.
        heard: When the cell was heard of last, CLOCK_MONOTONIC [s].

    Thread: :meth:`say` that of the node; what is left any.
    """

    def __init__(self, config: CellConfig, node: Any) -> None:
        self._cell = config.cell.name
        self.active: tuple[str, ...] = ()
        self.arms = dict.fromkeys(config.arms, ArmStatus())
        self.heard = -1e9
        self._events: deque[LoopEvent] = deque(maxlen=REMEMBERED)
        self._count = 0
        self._notices: dict[str, int] = {}
        self._loop: Mapping[str, str] = {}
        node.create_subscription(DiagnosticArray, "/diagnostics", self.receive, LINES)

    @property
    def is_known(self) -> bool:
        """Whether anything was heard."""
        return bool(self._loop)

    @property
    def has_system_time(self) -> bool:
        """Whether the node's time is the machine's."""
        return self._loop.get("time") == "system"

    def say(self, text: str, time_ns: int) -> None:
        """Remember a line."""
        self._remember(Line(Event.NOTICE, time_ns, "", "", text))

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return how much was reported so far, and what came after the first ``count``."""
        total, events = self._count, list(self._events)
        return total, events[len(events) - min(len(events), total - count) :]

    def statistics(self) -> LoopStatistics:
        """Return how the loop kept its time in the last second or so."""
        said = self._loop
        missed, _, cycles = said.get("missed cycles", "0 of 0").partition(" of ")

        def number(name: str, scale: float = 1.0) -> float:
            found = _NUMBER.match(said.get(name, ""))
            return scale * float(found[0]) if found else 0.0

        micro = 1e-6
        return LoopStatistics(
            int(cycles or 0), number("rate [Hz]"),
            number("lateness p50 [us]", micro), number("lateness p99 [us]", micro),
            number("lateness max [us]", micro), number("compute p50 [us]", micro),
            number("compute p99 [us]", micro), number("compute max [us]", micro),
            int(missed or 0), number("real-time factor"),
        )  # fmt: skip

    def receive(self, message: Any) -> None:
        """Receive diagnostics, which may be of another node."""
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            cell, _, arm = status.hardware_id.partition("/")
            if cell != self._cell:
                continue
            if not arm and "active" in values:
                self._loop, self.heard = values, time.monotonic()
                self.active = tuple(filter(None, values["active"].split(", ")))
            elif arm in self.arms and "fault" in values:
                self._take_arm(arm, values)
            elif "last notice" in values:
                self._take_notice(arm, values)

    def _take_notice(self, controllet: str, values: Mapping[str, str]) -> None:
        """Remember the newest notice of a controllet, if it is new."""
        count = _count(values.get("notices", ""), 0)
        before = self._notices.get(controllet, count)
        self._notices[controllet] = count
        if count > before:  # fewer are of a new node
            self._remember(
                LoopEvent(Event.NOTICE, time.monotonic_ns(), "", controllet, values["last notice"])
            )

    def _take_arm(self, arm: str, values: Mapping[str, str]) -> None:
        fault = "" if values["fault"] == "none" else values["fault"]
        now = ArmStatus(
            values.get("owner", ""), fault, values.get("reason", ""),
            _count(values.get("refused targets", ""), 0), values.get("last refusal", ""),
            time.monotonic(), _count(values.get("beginnings", ""), -1),
            values.get("hold reason", ""),
        )  # fmt: skip
        before, self.arms[arm] = self.arms[arm], now
        if fault and before[:3] != now[:3]:
            kind = Event[fault.upper()] if fault.upper() in Event.__members__ else Event.NOTICE
            self._remember(LoopEvent(kind, time.monotonic_ns(), arm, "", now.reason))
        is_new = (before.hold_reason, before.beginnings) != (now.hold_reason, now.beginnings)
        if now.hold_reason and not fault and is_new:
            time_ns = time.monotonic_ns()
            self._remember(LoopEvent(Event.HOLDS, time_ns, arm, "", now.hold_reason))
        if before.heard > 0.0 and now.refused > before.refused:  # fewer are of a new node
            self.say(f"refused: {now.refusal}", time.monotonic_ns())

    def _remember(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._count += 1


def _count(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


WARNING = 30
"""Level of a line of a log from which on it is shown."""


class HeardCell:
    """Hear what it takes to show a cell, and read it when it is shown.

    Args:
        link: To the node; not started yet.
        root: Namespace of the cell, with a slash in front, or nothing.
        config: The cell.

    Attributes:
        status: What diagnostics say.

    Thread: callbacks the link's, all else any.
    """

    def __init__(self, link: NodeLink, root: str, config: CellConfig) -> None:
        self._arms = describe_arms(config)
        self._index = {arm.name: index for index, arm in enumerate(self._arms)}
        self._logger = f"{root}/{NODE}".strip("/").replace("/", ".")
        self._begin: float | None = None
        self.status = NodeStatus(config, link.node)
        self._order: dict[tuple[str, ...], list[tuple[int, list[int], list[int]]]] = {}
        most = max(arm.n_joints for arm in self._arms)
        of_arm = np.dtype([(name, np.float64, most) for name in ("q", "dq", "tau")]
                          + [("fingers", np.float64, 2)])  # fmt: skip
        kind = [("time", np.float64), ("arms", of_arm, len(self._arms)),
                ("objects", np.float64, (len(list(movable_things(config))), 7))]  # fmt: skip
        self._row = np.zeros((), np.dtype(kind))
        read_wrench = partial(read_numbers, WrenchStamped, ("force", "torque"))
        self._joints = link.hear(JointState, f"{root}/joint_states")
        self._poses = {
            arm.name: link.hear(PoseStamped, f"{root}/{arm.name}/current_pose", read=read_pose)
            for arm in self._arms
        }
        self._wrenches = {
            arm.name: link.hear(
                WrenchStamped, f"{root}/{arm.name}/external_wrench", read=read_wrench
            )
            for arm in self._arms
        }
        self._things = [
            link.hear(PoseStamped, f"{root}/objects/{thing}/pose", read=read_pose)
            for thing in movable_things(config)
        ]
        link.node.create_subscription(Log, "/rosout", self._take_line, LINES)

    def silent(self) -> list[str]:
        """Return what was not heard of yet, of what it takes to show the cell."""
        needed = [self._joints, *self._poses.values(), *self._wrenches.values()]
        missing = [topic.name for topic in needed if not topic.count]
        return missing if self.status.is_known else [*missing, "/diagnostics"]

    def row(self) -> NDArray[np.void]:
        """Return where everything is, as far as :meth:`.SceneView.show` wants it."""
        row, message = self._row, self._joints.message()
        names = tuple(message.name)
        if names not in self._order:
            self._order[names] = self._places(names)
        for index, joints, fingers in self._order[names]:
            arm = row["arms"][index]
            for field, values in (("q", message.position), ("dq", message.velocity),
                                  ("tau", message.effort)):  # fmt: skip
                arm[field][: len(joints)] = [values[place] for place in joints]
            if fingers:
                arm["fingers"][:] = [message.position[place] for place in fingers]
        stamp = message.header.stamp
        now = stamp.sec + 1e-9 * stamp.nanosec
        self._begin = now if self._begin is None else self._begin
        row["time"] = now - self._begin
        for place, thing in enumerate(self._things):
            if thing.count:
                pose = thing.message().pose
                row["objects"][place] = [*pose.position, *np.roll(pose.quaternion_xyzw, 1)]
        return row

    def state(self, arm: str) -> ArmSnapshot:
        """Return what an arm does; ``tau`` is what was measured."""
        row, index = self.row(), self._index[arm]
        n = self._arms[index].n_joints
        found = row["arms"][index]
        pose, wrench = self._poses[arm].message().pose, self._wrenches[arm].message().numbers
        status = self.status.arms[arm]
        return ArmSnapshot(
            name=arm, time=float(row["time"]), q=found["q"][:n].copy(), dq=found["dq"][:n].copy(),
            tau_J=found["tau"][:n].copy(), tau_ext=np.full(n, np.nan),
            tau=found["tau"][:n].copy(), position_ee_in_base=pose.position,
            rotation_ee_in_base=pose.rotation, twist_ee_in_base=np.full(6, np.nan),
            wrench_ext_in_base=np.array(wrench), fingers=found["fingers"].copy(),
            owner=status.owner, fault=status.fault,
        )  # fmt: skip

    def silence(self, arm: str) -> float:
        """Return how long ago the newest pose of an arm came [s]."""
        return time.monotonic() - self.heard(arm)

    def heard(self, arm: str) -> float:
        """Return when the newest pose of an arm came, CLOCK_MONOTONIC [s]."""
        return self._poses[arm].heard

    def _places(self, names: tuple[str, ...]) -> list[tuple[int, list[int], list[int]]]:
        """Return where in a message the joints and fingers are of each arm that is in it."""
        found = []
        for index, arm in enumerate(self._arms):
            if set(arm.joint_names) <= set(names):
                fingers = [names.index(one) for one in arm.finger_joint_names if one in names]
                found.append((index, [names.index(one) for one in arm.joint_names], fingers))
        return found

    def _take_line(self, line: Log) -> None:
        level = line.level if isinstance(line.level, int) else line.level[0]
        if line.name == self._logger and level >= WARNING:
            self.status.say(line.msg, time.monotonic_ns())
