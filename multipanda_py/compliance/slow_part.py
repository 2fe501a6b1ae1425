# SPDX-License-Identifier: Apache-2.0
"""What accelerates links besides springs, as far as it changes slowly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multipanda_py.state import Vector

SLOW = 0.1
"""Time constant of what counts as slow [s]: long against vibrations, short against rest."""
HELD = 0.02
"""Time constant of what contacts and friction hold [s]."""


@dataclass(eq=False)
class SlowPart:
    r"""Low-passed accelerations of links, (n,) each [rad/s^2].

    Contacts and friction of joints are known after a step only, by what they did to velocities;
    with what they have done lately a link that leans on something stands still between its steps,
    too, where its spring would else begin to move it.

    Attributes:
        acceleration: By everything but springs, contacts and friction.
        held: By contacts and friction.
        last: All of the former in the last step; not a number if there was none.

    Thread: control.
    """

    acceleration: Vector
    held: Vector
    last: Vector

    @classmethod
    def none(cls, n_joints: int) -> SlowPart:
        """Return that of joints that did not move yet."""
        return cls(np.zeros(n_joints), np.zeros(n_joints), np.full(n_joints, np.nan))

    def copied(self) -> tuple[Vector, ...]:
        """Return copies of all."""
        return self.acceleration.copy(), self.held.copy(), self.last.copy()

    def update(
        self, dq: Vector, expected: Vector, rest: Vector, inner: Vector, duration: float
    ) -> None:
        """Take the beginning of a step.

        Args:
            dq: Velocities, with the second half of the last kick, (n,) [rad/s].
            expected: Without that half, and if nothing held the links, (n,) [rad/s].
            rest: Accelerations by everything but springs, contacts and friction, (n,) [rad/s^2].
            inner: Where there are kicks, (n,).
            duration: Of the step [s].
        """
        if math.isnan(self.last[0]):
            self.acceleration[:] = rest
        else:
            kick = 0.5 * duration * inner * (rest - self.last)
            found = (dq - expected - kick) / duration + self.held
            self.held += -math.expm1(-duration / HELD) * (found - self.held)
            self.acceleration += -math.expm1(-duration / SLOW) * (rest - self.acceleration)
        self.last[:] = rest
