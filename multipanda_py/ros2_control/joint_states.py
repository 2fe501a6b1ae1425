# SPDX-License-Identifier: Apache-2.0
"""Read the joints of one arm out of the messages of somebody else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol


class StateInvalid(Exception):
    """Report a message that cannot be the state of the arm, and why."""


class StateMessage(Protocol):
    """A ``sensor_msgs/JointState``."""

    header: Any
    name: Sequence[str]
    position: Sequence[float]
    velocity: Sequence[float]
    effort: Sequence[float]


class JointReading:
    """The newest state of an arm's joints, from base to flange.

    Args:
        names: Of the joints, n.

    Attributes:
        time: Of the state [s].
        q: Positions, (n,) [rad].
        dq: Velocities, (n,) [rad/s].
        effort: As the message has it, (n,); empty if it has none.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._wanted = list(names)
        self._names: list[str] = []
        self._places: list[int] = []
        self.time = -math.inf
        self.q: list[float] = []
        self.dq: list[float] = []
        self.effort: list[float] = []

    def take(self, message: StateMessage) -> bool:
        """Take a message, whatever its order.

        Returns:
            Whether it is a newer state of this arm.

        Raises:
            StateInvalid: If joints or numbers are missing or not finite; nothing changes.
        """
        names, position = message.name, message.position
        velocity, effort = message.velocity, message.effort
        if names != self._names and not self._find(names):
            return False
        stamp = message.header.stamp
        time = stamp.sec + 1e-9 * stamp.nanosec
        if time <= self.time:
            return False
        size = len(self._names)
        for what, numbers, allowed in (
            ("positions", position, (size,)),
            ("velocities", velocity, (size,)),
            ("efforts", effort, (0, size)),
        ):
            if len(numbers) not in allowed:
                raise StateInvalid(
                    f"got {len(numbers)} {what} of {size} joints, allowed one for each"
                )
        places = self._places
        q, dq = [position[i] for i in places], [velocity[i] for i in places]
        torque = [effort[i] for i in places] if len(effort) else []
        if not math.isfinite(sum(q) + sum(dq) + sum(torque)):
            raise StateInvalid(f"got q {q}, dq {dq}, effort {torque}, allowed finite numbers")
        self.time, self.q, self.dq, self.effort = time, q, dq, torque
        return True

    def _find(self, names: Sequence[str]) -> bool:
        """Find out where the joints stand; False if none of them is there: another arm's."""
        missing = [name for name in self._wanted if name not in names]
        if len(missing) == len(self._wanted):
            return False
        if missing or len(set(names)) < len(names):
            raise StateInvalid(
                f"got joints {list(names)}, allowed each of {self._wanted} once, in any order"
            )
        self._names = list(names)
        self._places = [self._names.index(name) for name in self._wanted]
        return True
