# SPDX-License-Identifier: Apache-2.0
"""Energy tank that keeps a projected joint spring passive."""

from __future__ import annotations

from math import hypot

from numpy import subtract

from multipanda_py.state import Vector

MAX_ENERGY = 1.0
"""Capacity of the tank [J]."""
RECHARGING_POWER = 0.02
"""Power that recharges the tank at rest [W]."""


class NullspaceTank:
    """Energy tank for the work that a nullspace projection adds to a joint spring.

    Equations::

        dE/dt = F^T dx - tau_0^T dr + |F| |dx_r| + P_0,   0 <= E <= E_max
        s     = max(0, 1 - 2 E / E_max)

    - E: Energy in the tank [J]; E_max: ``MAX_ENERGY``; P_0: ``RECHARGING_POWER`` [W].
    - tau_0: Torques of the spring and its damper before the projection, (n,) [Nm].
    - F: Wrench that the projection removes from tau_0, (6,) [N, Nm].
    - dx: Twist of the tool, (6,); dx_r: velocity of the reference pose.
    - dr: Velocity at which the desired configuration is shifted, (n,) [rad/s].
    - s: Fraction of the tool motion that the desired configuration follows.

    A projected spring does not resist tool motion. If something else moves the tool, it deflects
    the spring without work, and the spring then accelerates the nullspace motion with this energy.
    An arm could oscillate for ever in this way. The tank pays for the energy. If it is empty, the
    desired configuration moves with the tool, which does not deflect the spring (s = 1). Motion of
    the reference refills the tank.

    Source: Dietrich, Ott and Stramigioli, IEEE RA-L 2016 (energy tanks for projected springs).

    Args:
        period: Cycle time [s].

    Attributes:
        energy: Energy E [J].
        followed: Fraction s, 0 to 1.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._recharged = RECHARGING_POWER * period
        self.reset()

    def reset(self) -> None:
        """Fill the tank."""
        self.energy, self.followed = MAX_ENERGY, 0.0
        self._reference: Vector | None = None
        self._bytes = b""

    def update(self, reference: Vector | None, wrench: Vector, work: float) -> None:
        """Change the energy by the work of one cycle.

        Args:
            reference: Reference pose, as a position and a rotation matrix, (12,); None for a
                controllet without a pose.
            wrench: Wrench F, (6,) [N, Nm].
            work: Work F^T dx - tau_0^T dr of this cycle [J].
        """
        energy = self.energy + work + self._recharged
        if reference is not None and reference.tobytes() != self._bytes:
            if self._reference is not None:
                moved = subtract(reference, self._reference).tolist()
                energy += hypot(*wrench.tolist()) * hypot(*moved)
            self._reference, self._bytes = reference.copy(), reference.tobytes()
        self.energy = min(max(energy, 0.0), MAX_ENERGY)
        self.followed = max(0.0, 1.0 - 2.0 * self.energy / MAX_ENERGY)
