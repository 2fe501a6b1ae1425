# SPDX-License-Identifier: Apache-2.0
"""The time of the simulated world, for everybody who has ``use_sim_time``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock

from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.qos import CLOCK, STATES
from multipanda_py.ros.node.running import every


class PlainTopic:
    """A publisher with the one message that it sends over and over.

    Args:
        node: Publishes.
        kind: Type of the message.
        name: Of the topic.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str) -> None:
        self.message = kind()
        self._publisher: Publisher = node.create_publisher(kind, name, STATES)

    def wanted(self) -> bool:
        """Whether anybody listens; otherwise nothing needs to be made."""
        return bool(self._publisher.get_subscription_count())

    def send(self) -> None:
        """Send the message."""
        self._publisher.publish(self.message)


class StateTopic:
    """The same with a stamp: for types that begin with a header.

    Args:
        node: Publishes.
        kind: Type of the message.
        name: Of the topic.
        frame: Of the header.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str, frame: str = "") -> None:
        self._topic = PlainTopic(node, kind, name)
        self.message, self.wanted = self._topic.message, self._topic.wanted
        self.message.header.frame_id = frame
        self._stamp = self.message.header.stamp

    def send(self, stamp: tuple[int, int]) -> None:
        """Send the message with the time of measurement, in seconds and nanoseconds."""
        self._stamp.sec, self._stamp.nanosec = stamp
        self._topic.send()


Stamp = tuple[int, int]


@dataclass(frozen=True)
class Fresh:
    """New states of one cycle.

    Attributes:
        row: The newest row.
        arms: Indices of the arms that have a new state in it.
        stamps: When each of these was measured, in their order.
    """

    row: NDArray[np.void]
    arms: list[int]
    stamps: list[Stamp]

    @property
    def stamp(self) -> Stamp:
        """When the first of them was measured."""
        return min(self.stamps)


def world_time(row: NDArray[np.void]) -> Stamp:
    """Return the time of the simulated world at which a cycle's states were measured."""
    return divmod(round(float(row["time"]) * 1e9), 1_000_000_000)


class FreshStates:
    """The newest cycle, for somebody who sends every state once.

    Stamps are the node's time at which the cycle began that a state is from; while the node is
    told to take its time from ``/clock`` and there is none, there is nothing to send. Where the
    node sends ``/clock`` itself, they are the time of its world. A silent robot has no new states,
    while the loop goes on for the other arms. Thread: executor.
    """

    def __init__(self, cell: Cell, clock: NodeClock) -> None:
        self._cell, self._clock = cell, clock
        self._is_clock = bool(cell.config.cell.clock_rate)
        # Where all arms are simulated every cycle has a new state of each.
        self._by_arm = any(arm.backend == "franka" for arm in cell.config.arms.values())
        self._sent = [0] * len(cell.arms)

    def look(self) -> Fresh | None:
        """Return what is new since the last call, or None where nothing was measured."""
        row = self._cell.row()
        if self._by_arm:
            sensed = row["arms"]["sensed_ns"].tolist()
        else:
            sensed = [int(row["wake_ns"])] * len(self._sent)
        new = [index for index, ns in enumerate(sensed) if ns != self._sent[index]]
        if not new:  # the loop stands still, or every robot
            return None
        self._sent = sensed
        if not self._clock.has_begun:  # as of 1970 they would be wrong, and diagnostics say why
            return None
        if self._is_clock:  # what this node sends on /clock, without the steps
            return Fresh(row, new, [world_time(row)] * len(new))
        # The clocks are read once for what was measured together: stamps of it are equal.
        stamp_of = {ns: self._clock.stamp(ns) for ns in {sensed[index] for index in new}}
        return Fresh(row, new, [stamp_of[sensed[index]] for index in new])


class Pace:
    """Which of the cycles that are looked at are sent, where not all are wanted.

    Args:
        rate: How many a second [Hz]; no more than are looked at.
    """

    def __init__(self, rate: float) -> None:
        self._period, self._due = round(1e9 / rate), 0

    def is_due(self, row: NDArray[np.void]) -> bool:
        """Return whether this one is, and count it as sent."""
        now = int(row["wake_ns"])
        if now < self._due:
            return False
        late = now - self._due
        self._due = now + self._period - (late if late < self._period else 0)
        return True


class WorldClock:
    """Send the time of the newest cycle on ``/clock``; nothing while the loop stands still.

    Thread: executor.

    Raises:
        ConfigurationError: If the node itself does not live by ``/clock``: its stamps would be of
            another time than the one that it tells.
    """

    def __init__(self, node: Node, cell: Cell, clock: NodeClock) -> None:
        rate = cell.config.cell.clock_rate
        if not clock.comes_from_topic:
            raise ConfigurationError(
                f"cell.clock_rate: got {rate:g} with use_sim_time: false, allowed 0; or set "
                "use_sim_time to true, for the node's own stamps too"
            )
        self._cell, self._cycle = cell, 0
        self._publisher = node.create_publisher(Clock, "/clock", CLOCK)
        every(node, 1.0 / rate, self._tick)

    def _tick(self) -> None:
        row = self._cell.row()
        if int(row["cycle"]) != self._cycle:
            self._cycle = int(row["cycle"])
            sec, nanosec = world_time(row)
            self._publisher.publish(Clock(clock=Time(sec=sec, nanosec=nanosec)))
