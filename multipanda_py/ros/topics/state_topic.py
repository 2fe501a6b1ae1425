# SPDX-License-Identifier: Apache-2.0
"""State topics, selection of new states, and publication of ``/clock``."""

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
from multipanda_py.ros.node.qos import CLOCK_QOS, STATE_QOS
from multipanda_py.ros.node.running import every


class PlainTopic:
    """Publisher that reuses one message object; fill it before each :meth:`send`.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str) -> None:
        self.message = kind()
        self._publisher: Publisher = node.create_publisher(kind, name, STATE_QOS)

    def has_subscribers(self) -> bool:
        """Return True if the topic has subscribers."""
        return bool(self._publisher.get_subscription_count())

    def send(self) -> None:
        self._publisher.publish(self.message)


class StateTopic:
    """Publisher that reuses one message object with a header; fill it before each :meth:`send`.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str, frame: str = "") -> None:
        self._topic = PlainTopic(node, kind, name)
        self.message, self.has_subscribers = self._topic.message, self._topic.has_subscribers
        self.message.header.frame_id = frame
        self._stamp = self.message.header.stamp

    def send(self, stamp: tuple[int, int]) -> None:
        """Publish the message with the time of measurement, in seconds and nanoseconds."""
        self._stamp.sec, self._stamp.nanosec = stamp
        self._topic.send()


Stamp = tuple[int, int]


@dataclass(frozen=True)
class Fresh:
    """New states of one cycle.

    Attributes:
        row: Newest cycle record.
        arms: Indices of the arms that have a new state in it.
        stamps: Measurement times of these arms, in the same order.
    """

    row: NDArray[np.void]
    arms: list[int]
    stamps: list[Stamp]

    @property
    def stamp(self) -> Stamp:
        """Earliest of the measurement times."""
        return min(self.stamps)


def world_time(row: NDArray[np.void]) -> Stamp:
    """Return the time of the simulated world at which a cycle's states were measured."""
    return divmod(round(float(row["time"]) * 1e9), 1_000_000_000)


class FreshStates:
    """Reader of the newest cycle that returns every state once.

    The stamp of a state is the node's time at the start of the cycle that read it, or the
    simulated time if the node publishes ``/clock``. With ``use_sim_time``, no state is returned
    before the first message on ``/clock``. Thread: executor.
    """

    def __init__(self, cell: Cell, clock: NodeClock) -> None:
        self._cell, self._clock = cell, clock
        self._is_clock = bool(cell.config.cell.clock_rate)
        self._sent = [0] * len(cell.arms)

    def poll(self) -> Fresh | None:
        """Return the states that are new since the last call; None without new ones."""
        row = self._cell.latest_record()
        sensed = row["arms"]["state_cycle_ns"].tolist()
        # If no robot wakes the loop, all times are zero, and each cycle has new states of all
        # arms.
        if not any(sensed):
            sensed = [int(row["wake_ns"])] * len(self._sent)
        new = [index for index, ns in enumerate(sensed) if ns != self._sent[index]]
        if not new:  # The loop or every robot has stopped.
            return None
        self._sent = sensed
        if not self._clock.has_started:  # Stamps would be zero.
            return None
        if self._is_clock:  # Same time as /clock, without its steps.
            return Fresh(row, new, [world_time(row)] * len(new))
        # Read the clock once per measurement time, so that equal times get equal stamps.
        stamp_of = {ns: self._clock.stamp(ns) for ns in {sensed[index] for index in new}}
        return Fresh(row, new, [stamp_of[sensed[index]] for index in new])


class Pace:
    """Limiter of messages to a maximum rate [Hz]."""

    def __init__(self, rate: float) -> None:
        self._period, self._next_time = round(1e9 / rate), 0

    def is_due(self, row: NDArray[np.void]) -> bool:
        """Return True if this cycle is to be published, and count it as published."""
        now = int(row["wake_ns"])
        if now < self._next_time:
            return False
        late = now - self._next_time
        self._next_time = now + self._period - (late if late < self._period else 0)
        return True


class SimClock:
    """Publisher of the world's time on ``/clock``; silent while the loop is stopped.

    Thread: executor.

    Raises:
        ConfigurationError: If ``use_sim_time`` is false: stamps of the node would not match
            ``/clock``.
    """

    def __init__(self, node: Node, cell: Cell, clock: NodeClock) -> None:
        rate = cell.config.cell.clock_rate
        if not clock.comes_from_topic:
            raise ConfigurationError(
                f"cell.clock_rate: got {rate:g} with use_sim_time: false, allowed 0. Set "
                "use_sim_time to true, so that the node's stamps match /clock"
            )
        self._cell, self._cycle = cell, 0
        self._publisher = node.create_publisher(Clock, "/clock", CLOCK_QOS)
        every(node, 1.0 / rate, self._tick)

    def _tick(self) -> None:
        row = self._cell.latest_record()
        if int(row["cycle"]) != self._cycle:
            self._cycle = int(row["cycle"])
            sec, nanosec = world_time(row)
            self._publisher.publish(Clock(clock=Time(sec=sec, nanosec=nanosec)))
