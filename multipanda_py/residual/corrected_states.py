# SPDX-License-Identifier: Apache-2.0
"""States of any simulator, at any even rate, as the robot would have shown them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.residual.live import LiveResidual
from multipanda_py.residual.weights_file import TrainedResidual
from multipanda_py.state import Vector

EARLY, LATE = 0.25, 0.5
"""Shares of a step by which a state may come before its instant, and after it."""


class CorrectedStates:
    """Add a residual to states that come with the time of their instant.

    The network steps at its own rate, and what it says is held between. States that come more
    seldom, out of order, or after a gap have it look on anew, as with every beginning.

    Args:
        trained: A real-time network.

    Attributes:
        gaps: How often it has begun anew.

    Raises:
        ConfigurationError: If it is a precise network.

    Thread: one.
    """

    def __init__(self, trained: TrainedResidual) -> None:
        self._period = 1.0 / trained.rate
        self._live = LiveResidual(trained, self._period, trained.robot, trained.joints)
        self._due: float | None = None
        self._last = -np.inf
        self.gaps = 0

    @property
    def confidence(self) -> float:
        """How far the state is inside what was trained, 0 to 1; 0 while the network looks on."""
        return self._live.confidence

    def correct(self, time: float, state: Vector) -> Vector:
        """Return a state with the residual added, (3 n,): positions, velocities, torques.

        Args:
            time: Of its instant [s].
            state: Of the simulator, (3 n,) [rad, rad/s, Nm].
        """
        period, due = self._period, self._due
        if due is None or time < self._last or time > due + LATE * period:
            self.gaps += due is not None
            self._live.reset()
            due = time
        self._last = time
        if time >= due - EARLY * period:
            self._live.step(*np.split(state, 3))
            due += period
        self._due = due
        corrected: Vector = state + self._live.residual
        return corrected


def places_of(joints: Sequence[str], names: Sequence[str], prefix: str = "") -> list[int]:
    """Return where joints are in a message, by names that are theirs behind one beginning.

    Args:
        joints: As in the training: ``joint1``.
        names: As in the message: ``left_fr3_joint1``; fingers and other arms may be among them.
        prefix: With which that beginning itself begins.

    Raises:
        ConfigurationError: If no arm has all of them, or several have.
    """
    first, given = joints[0], set(names)
    begins = [
        name.removesuffix(first)
        for name in names
        if name.startswith(prefix) and (name == first or name.endswith(f"_{first}"))
    ]
    arms = [begin for begin in begins if given >= {begin + joint for joint in joints}]
    if len(arms) != 1:
        raise ConfigurationError(
            f"{first} to {joints[-1]}: got {len(arms)} arms with all of them among "
            f"{', '.join(names) or 'no names'}, allowed one; --prefix tells arms apart"
        )
    return [names.index(arms[0] + joint) for joint in joints]
