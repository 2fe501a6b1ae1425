# SPDX-License-Identifier: Apache-2.0
"""Read the joints of one arm out of the messages of somebody else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

JUMP = 0.1
"""More than any joint moves between two states at twice its speed limit [rad, or m]."""


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
        fastest: Speed limits, (n,) [rad/s, or m/s]; without them positions may jump.
        endless: Whether each turns without end, (n,): a whole turn is no jump.
        longest: Pause between two states from which on a joint may be no farther away [s]: one
            that has jumped stays refused until :meth:`forget`.
        slides: Whether each slides, (n,).

    Attributes:
        time: Of the state [s].
        q: Positions, (n,) [rad].
        dq: Velocities, (n,) [rad/s].
        effort: As the message has it, (n,); empty if it has none.
    """

    def __init__(
        self,
        names: Sequence[str],
        fastest: Sequence[float] = (),
        endless: Sequence[bool] = (),
        longest: float = math.inf,
        slides: Sequence[bool] = (),
    ) -> None:
        self._wanted = list(names)
        self._fastest = list(fastest) or [math.inf] * len(names)
        self._endless = list(endless) or [False] * len(names)
        self._longest = longest
        self._units = ["m" if one else "rad" for one in slides] or ["rad"] * len(names)
        self._stamp = -math.inf  # the last one, also if it was not newer
        self._before: list[float] = []  # where joints were at the time, if that is known
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
            StateInvalid: If joints or numbers are missing or not finite, or a joint is where it
                cannot have come to since the state before; nothing changes.
        """
        names, position = message.name, message.position
        velocity, effort = message.velocity, message.effort
        if names != self._names and not self._find(names):
            return False
        stamp = message.header.stamp
        self._stamp = time = stamp.sec + 1e-9 * stamp.nanosec
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
        self._check_way(q, time - self.time)
        self.time, self.q, self.dq, self.effort = time, q, dq, torque
        self._before = q
        return True

    @property
    def is_behind(self) -> bool:
        """Whether the last stamp was older than that of the state."""
        return self._stamp < self.time

    def follow_back(self) -> None:
        """Go on from the last stamp if stamps have gone back: a clock was set, or began again."""
        if self.is_behind:
            self.time, self._before = self._stamp, []

    def forget(self) -> None:
        """Take joints to be wherever the next state says: somebody has looked at the arm."""
        self._before = []

    def _check_way(self, q: Sequence[float], period: float) -> None:
        """Refuse positions that no arm can have come to."""
        each = zip(self._wanted, q, self._before, self._fastest, self._endless, self._units)
        for name, now, before, fastest, is_endless, unit in each:
            way = math.remainder(now - before, math.tau) if is_endless else now - before
            most = JUMP + 2.0 * fastest * min(period, self._longest)
            if abs(way) > most:
                raise StateInvalid(
                    f"joint {name} went from {before:.4g} to {now:.4g} {unit} in "
                    f"{1e3 * period:.3g} ms, allowed {most:.3g} {unit}"
                )

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
