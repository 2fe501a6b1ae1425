# SPDX-License-Identifier: Apache-2.0
"""State of a running node's cell, from the newest messages of its topics."""

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
from multipanda_py.config.describe import describe_arms, movable_objects
from multipanda_py.config.parameter_file import NODE
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.ros.client.node_link import NodeLink
from multipanda_py.ros.node.conversions import read_numbers, read_pose
from multipanda_py.state import ArmSnapshot

MAX_EVENTS = 100
"""Maximum number of stored events."""
LOG_QOS = QoSProfile(depth=100)
"""QoS profile of topics that several nodes publish and of which every message counts."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class ArmStatus(NamedTuple):
    """Status of an arm from diagnostics.

    Attributes:
        owner: Name of the controllet that owns the arm.
        fault: Name of the latched fault, or an empty string.
        reason: Text of the fault.
        refused: Number of targets that the node has rejected.
        refusal: Reason of the last rejection.
        received_at: Arrival time of the newest diagnostics of the arm, CLOCK_MONOTONIC [s].
        activation_count: Number of controllet activations on the arm so far; -1 while unknown.
        hold_reason: Reason why the arm holds; empty while a controllet is active.
    """

    owner: str = ""
    fault: str = ""
    reason: str = ""
    refused: int = 0
    refusal: str = ""
    received_at: float = -1e9
    activation_count: int = -1
    hold_reason: str = ""


@dataclass(frozen=True)
class LogLine(LoopEvent):
    """Line of the node's log as an event; ``str`` returns only its text."""

    def __str__(self) -> str:
        return self.text


class NodeStatus:
    """Subscription to the diagnostics of one cell, with its recent events.

    Args:
        node: ROS node that subscribes.

    Attributes:
        active: Names of the active controllets.
        arms: Status of each arm.
        received_at: Time of the newest diagnostics of the cell, CLOCK_MONOTONIC [s].

    Thread: that of the executor of ``node`` for :meth:`note` and callbacks, any for all other
    methods.
    """

    def __init__(self, config: CellConfig, node: Any) -> None:
        self._cell = config.cell.name
        self.active: tuple[str, ...] = ()
        self.arms = dict.fromkeys(config.arms, ArmStatus())
        self.received_at = -1e9
        self._events: deque[LoopEvent] = deque(maxlen=MAX_EVENTS)
        self._count = 0
        self._notices: dict[str, int] = {}
        self._loop: Mapping[str, str] = {}
        node.create_subscription(DiagnosticArray, "/diagnostics", self.receive, LOG_QOS)

    @property
    def is_known(self) -> bool:
        """True after the first diagnostics of the cell's loop."""
        return bool(self._loop)

    @property
    def has_system_time(self) -> bool:
        """True if the node uses the system time, not ``/clock``."""
        return self._loop.get("time") == "system"

    def note(self, text: str, time_ns: int) -> None:
        """Store a line of the node's log, received at ``time_ns`` of CLOCK_MONOTONIC."""
        self._remember(LogLine(Event.NOTICE, time_ns, "", "", text))

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the stored ones after the first ``count``."""
        total, events = self._count, list(self._events)
        return total, events[len(events) - min(len(events), total - count) :]

    def statistics(self) -> LoopStatistics:
        """Return the timing of the loop in about the last second, from the newest diagnostics."""
        values = self._loop
        missed, _, cycles = values.get("missed cycles", "0 of 0").partition(" of ")

        def number(name: str, scale: float = 1.0) -> float:
            match = _NUMBER.match(values.get(name, ""))
            return scale * float(match[0]) if match else 0.0

        micro = 1e-6
        return LoopStatistics(
            int(cycles or 0), number("rate [Hz]"),
            number("lateness p50 [us]", micro), number("lateness p99 [us]", micro),
            number("lateness max [us]", micro), number("compute p50 [us]", micro),
            number("compute p99 [us]", micro), number("compute max [us]", micro),
            int(missed or 0), number("real-time factor"),
        )  # fmt: skip

    def receive(self, message: Any) -> None:
        """Store the diagnostics of this cell; those of other cells are ignored."""
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            cell, _, arm = status.hardware_id.partition("/")
            if cell != self._cell:
                continue
            if not arm and "active" in values:
                self._loop, self.received_at = values, time.monotonic()
                self.active = tuple(filter(None, values["active"].split(", ")))
            elif arm in self.arms and "fault" in values:
                self._take_arm(arm, values)
            elif "last notice" in values:
                self._take_notice(arm, values)

    def _take_notice(self, controllet: str, values: Mapping[str, str]) -> None:
        count = _count(values.get("notices", ""), 0)
        before = self._notices.get(controllet, count)
        self._notices[controllet] = count
        if count > before:  # A lower count means a restarted node.
            self._remember(
                LoopEvent(Event.NOTICE, time.monotonic_ns(), "", controllet, values["last notice"])
            )

    def _take_arm(self, arm: str, values: Mapping[str, str]) -> None:
        fault = "" if values["fault"] == "none" else values["fault"]
        now = ArmStatus(
            values.get("owner", ""), fault, values.get("reason", ""),
            _count(values.get("rejected targets", ""), 0), values.get("last rejection", ""),
            time.monotonic(), _count(values.get("beginnings", ""), -1),
            values.get("hold reason", ""),
        )  # fmt: skip
        before, self.arms[arm] = self.arms[arm], now
        if fault and before[:3] != now[:3]:
            kind = Event[fault.upper()] if fault.upper() in Event.__members__ else Event.NOTICE
            self._remember(LoopEvent(kind, time.monotonic_ns(), arm, "", now.reason))
        is_new = (before.hold_reason, before.activation_count) != (
            now.hold_reason,
            now.activation_count,
        )
        if now.hold_reason and not fault and is_new:
            time_ns = time.monotonic_ns()
            self._remember(LoopEvent(Event.HOLDS, time_ns, arm, "", now.hold_reason))
        if (
            before.received_at > 0.0 and now.refused > before.refused
        ):  # A lower count means a restarted node.
            self.note(f"refused: {now.refusal}", time.monotonic_ns())

    def _remember(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._count += 1


def _count(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


MIN_LOG_LEVEL = 30
"""Minimum level of log lines that become events: WARN of ``rcl_interfaces/Log``."""


class CellStateSubscriber:
    """Subscriptions to all topics of a cell that a panel shows.

    Attributes:
        status: Diagnostics of the cell.

    Thread: that of ``link`` for callbacks, any for all other methods.
    """

    def __init__(self, link: NodeLink, root: str, config: CellConfig) -> None:
        self._arms = describe_arms(config)
        self._index = {arm.name: index for index, arm in enumerate(self._arms)}
        self._logger = f"{root}/{NODE}".strip("/").replace("/", ".")
        self._start: float | None = None
        self.status = NodeStatus(config, link.node)
        self._order: dict[tuple[str, ...], list[tuple[int, list[int], list[int]]]] = {}
        max_joints = max(arm.n_joints for arm in self._arms)
        of_arm = np.dtype([(name, np.float64, max_joints) for name in ("q", "dq", "tau")]
                          + [("finger_positions", np.float64, 2)])  # fmt: skip
        kind = [("time", np.float64), ("arms", of_arm, len(self._arms)),
                ("object_poses", np.float64, (len(list(movable_objects(config))), 7))]  # fmt: skip
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
        self._objects = [
            link.hear(PoseStamped, f"{root}/objects/{obj}/pose", read=read_pose)
            for obj in movable_objects(config)
        ]
        link.node.create_subscription(Log, "/rosout", self._take_line, LOG_QOS)

    def silent(self) -> list[str]:
        """Return the topics without a message so far: joints, poses, wrenches or diagnostics."""
        needed = [self._joints, *self._poses.values(), *self._wrenches.values()]
        missing = [topic.name for topic in needed if not topic.count]
        return missing if self.status.is_known else [*missing, "/diagnostics"]

    def latest_record(self) -> NDArray[np.void]:
        """Return a record of the newest joint and object positions for :meth:`.SceneView.show`."""
        row, message = self._row, self._joints.message()
        names = tuple(message.name)
        if names not in self._order:
            self._order[names] = self._joint_indices(names)
        for index, joints, fingers in self._order[names]:
            arm = row["arms"][index]
            for field, values in (("q", message.position), ("dq", message.velocity),
                                  ("tau", message.effort)):  # fmt: skip
                arm[field][: len(joints)] = [values[index] for index in joints]
            if fingers:
                arm["finger_positions"][:] = [message.position[index] for index in fingers]
        stamp = message.header.stamp
        now = stamp.sec + 1e-9 * stamp.nanosec
        self._start = now if self._start is None else self._start
        row["time"] = now - self._start
        for number, obj in enumerate(self._objects):
            if obj.count:
                pose = obj.message().pose
                row["object_poses"][number] = [
                    *pose.position,
                    *np.roll(pose.quaternion_xyzw, 1),
                ]
        return row

    def state(self, arm: str) -> ArmSnapshot:
        """Return the newest state of an arm. Its ``tau`` is the measured torque, not the command.

        Fields that the node does not send, such as ``tau_ext``, are NaN.
        """
        row, index = self.latest_record(), self._index[arm]
        n = self._arms[index].n_joints
        state = row["arms"][index]
        pose, wrench = self._poses[arm].message().pose, self._wrenches[arm].message().numbers
        status = self.status.arms[arm]
        return ArmSnapshot(
            name=arm, time=float(row["time"]), q=state["q"][:n].copy(), dq=state["dq"][:n].copy(),
            tau_J=state["tau"][:n].copy(), tau_ext=np.full(n, np.nan),
            tau=state["tau"][:n].copy(), position_ee_in_base=pose.position,
            rotation_ee_in_base=pose.rotation, twist_ee_in_base=np.full(6, np.nan),
            wrench_ext_in_base=np.array(wrench), finger_positions=state["finger_positions"].copy(),
            owner=status.owner, fault=status.fault,
        )  # fmt: skip

    def message_age(self, arm: str) -> float:
        """Return the age of the newest pose of an arm [s]."""
        return time.monotonic() - self.last_received(arm)

    def last_received(self, arm: str) -> float:
        """Return the arrival time of the newest pose of an arm, CLOCK_MONOTONIC [s]."""
        return self._poses[arm].received_at

    def _joint_indices(self, names: tuple[str, ...]) -> list[tuple[int, list[int], list[int]]]:
        """Return arm, joint and finger indices of each arm with all its joints in ``names``."""
        result = []
        for index, arm in enumerate(self._arms):
            if set(arm.joint_names) <= set(names):
                fingers = [names.index(one) for one in arm.finger_joint_names if one in names]
                result.append((index, [names.index(one) for one in arm.joint_names], fingers))
        return result

    def _take_line(self, line: Log) -> None:
        level = line.level if isinstance(line.level, int) else line.level[0]
        if line.name == self._logger and level >= MIN_LOG_LEVEL:
            self.status.note(line.msg, time.monotonic_ns())
