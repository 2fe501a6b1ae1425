# SPDX-License-Identifier: Apache-2.0
"""What ``/diagnostics`` say of a cell and its arms, taken apart."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.loop.events import Event, LoopEvent
from multipanda_py.loop.statistics import LoopStatistics

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
