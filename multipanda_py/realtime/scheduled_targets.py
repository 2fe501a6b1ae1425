# SPDX-License-Identifier: Apache-2.0
"""Targets that take effect at a given time, for one arm or for several arms together."""

from __future__ import annotations

from typing import NamedTuple

from multipanda_py.state import Vector

START_INDEX, GROUP_SIZE_INDEX = 1, 2
"""Indices of two numbers in a target record. The first is the time of the controlled world from
which the target counts [s]; 0 means immediately. The second is the number of arms of the
controllet that need a target with the same start time before any of them begins."""


class ScheduledTarget(NamedTuple):
    """Target that takes effect at its start time.

    Attributes:
        channel: Name of the channel.
        arm_index: Index of the arm in its controllet; 0 for channels of the whole controllet.
        data: Array of the controllet's target that receives the values at the start time.
        values: New values of the target, including its start time.
    """

    channel: str
    arm_index: int
    data: Vector
    values: Vector


class ScheduledTargets:
    """Queue of targets with a start time, one per arm of a controllet.

    Targets of several arms can start together as a group. A new target of an arm replaces its
    scheduled target, and cancels the other targets of the same group.

    Args:
        clock: Time of the cell, (1,) [s], updated by the loop.

    Attributes:
        waiting: Scheduled targets by the index of the arm in its controllet; always the same
            dictionary object.

    Thread: control.
    """

    def __init__(self, clock: Vector) -> None:
        self._clock = clock
        self.waiting: dict[int, ScheduledTarget] = {}

    def clear(self) -> None:
        self.waiting.clear()

    def replace(self, arm_index: int) -> None:
        """Cancel the scheduled target of an arm and those that start together with it."""
        old = self.waiting.pop(arm_index, None)
        if old is not None and old.values[GROUP_SIZE_INDEX] > 1.0:
            start = old.values[START_INDEX]
            for mate in [k for k, one in self.waiting.items() if one.values[START_INDEX] == start]:
                del self.waiting[mate]

    def schedule(self, channel: str, arm_index: int, data: Vector, values: Vector) -> bool:
        """Schedule a target that starts later.

        Args:
            channel: Name of the channel.
            arm_index: Index of the arm; 0 for channels of the whole controllet.
            data: Array that receives the values at the start time.
            values: New values of the target, including its start time.

        Returns:
            False if the start time has passed; the caller then has to start the target now.
        """
        if values[GROUP_SIZE_INDEX] <= 1.0 and values[START_INDEX] <= self._clock[0]:
            return False
        self.waiting[arm_index] = ScheduledTarget(channel, arm_index, data, values.copy())
        return True

    def pop_started(self) -> list[ScheduledTarget]:
        """Remove the targets whose start time has come from the queue, and return them.

        A target of a group also waits for the targets of all arms of the group.
        """
        now, waiting = float(self._clock[0]), self.waiting
        starts = [float(one.values[START_INDEX]) for one in waiting.values()]
        started = {
            arm_index: one
            for arm_index, one in waiting.items()
            if one.values[START_INDEX] <= now
            and starts.count(float(one.values[START_INDEX])) >= one.values[GROUP_SIZE_INDEX]
        }
        for index in started:
            del waiting[index]
        return list(started.values())
