# SPDX-License-Identifier: Apache-2.0
"""Topics ``target_status``, which report whether published targets are accepted."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.ros.qos import KEPT
from multipanda_py.ros.running import every
from multipanda_py.ros.targets import ChannelRecord, Targets

PERIOD = 0.05
"""Minimum time between two messages about one arm or controllet [s]."""
COUNT_PERIOD = 0.5
"""Time between two messages whose counts alone differ [s]."""
STREAM_PAUSE = 1.0
"""Time without a message after which a channel is not in use [s]."""
ACCEPTED, NONE_YET = "accepted", "no target received"
CLIPPED = "clipped to the gate: the stream is further from the arm than the gate allows"


class TargetStatus:
    """Publish ``<arm>/target_status`` and ``<controllet>/target_status``.

    A topic gives its publisher no answer, so this topic does. The level is OK while the newest
    target of every channel in use is accepted, else WARN with the reason as message. The values
    are the state and the counts of each channel in use. Late subscribers receive the newest
    message at once.

    Args:
        node: Node that publishes.
        cell: Cell that clips streams.
        targets: Subscriptions to the targets.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell, targets: Targets) -> None:
        self._status = [
            _Status(node, cell, name, channels)
            for name, channels in sorted(targets.channels.items())
        ]
        every(node, PERIOD, self._tick)

    def _tick(self) -> None:
        for status in self._status:
            status.update()


class _Status:
    """Status of one arm or controllet."""

    def __init__(
        self, node: Node, cell: Cell, name: str, channels: dict[str, ChannelRecord]
    ) -> None:
        self._cell, self._name, self._channels = cell, name, channels
        self._publisher = node.create_publisher(DiagnosticStatus, f"{name}/target_status", KEPT)
        self._message = DiagnosticStatus(
            name=name, hardware_id=f"{cell.config.cell.name}/{name}", message=NONE_YET
        )
        self._received = dict.fromkeys(channels, 0)
        self._clipped = dict.fromkeys(channels, 0)
        self._heard_at = dict.fromkeys(channels, -STREAM_PAUSE)
        self._refused = dict.fromkeys(channels, 0)
        self._sent_at, self._has_news = 0.0, False
        self._publisher.publish(self._message)

    def update(self) -> None:
        """Publish after messages, if the state has changed or the time has passed."""
        now, states = time.monotonic(), {}
        for name, record in self._channels.items():
            if record.received != self._received[name]:
                self._received[name], self._heard_at[name] = record.received, now
                self._has_news = True
            if now - self._heard_at[name] < STREAM_PAUSE:
                states[name] = self._judge(name, record)
        if not self._has_news or not states:
            return
        bad = [f"{name} {state}" for name, state in states.items() if state != ACCEPTED]
        level = DiagnosticStatus.WARN if bad else DiagnosticStatus.OK
        text = "; ".join(bad) or ACCEPTED
        message = self._message
        has_changed = (level, text) != (message.level, message.message)
        if has_changed or now - self._sent_at >= COUNT_PERIOD:
            self._sent_at, self._has_news = now, False
            message.level, message.message = level, text
            message.values = [
                KeyValue(key=f"{name} {key}", value=value)
                for name, state in states.items()
                for key, value in self._values(name, state)
            ]
            self._publisher.publish(message)

    def _judge(self, name: str, record: ChannelRecord) -> str:
        """Return the state of a channel in use."""
        clipped = self._cell.clipped[f"{self._name} {name}"]
        is_clipped, self._clipped[name] = clipped != self._clipped[name], clipped
        has_refused = record.refused != self._refused[name]
        self._refused[name] = record.refused
        if record.is_refused or has_refused:
            return f"refused: {record.reason}"
        return CLIPPED if is_clipped else ACCEPTED

    def _values(self, name: str, state: str) -> list[tuple[str, str]]:
        record = self._channels[name]
        return [
            ("state", state),
            ("received", str(record.received)),
            ("refused", str(record.refused)),
            ("clipped", str(self._clipped[name])),
        ]
