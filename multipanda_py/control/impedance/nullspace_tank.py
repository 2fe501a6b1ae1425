# SPDX-License-Identifier: Apache-2.0
"""Energy tank that keeps a projected joint spring passive."""

from __future__ import annotations

from math import hypot

from numpy import subtract

from multipanda_py.state import Vector

INITIAL_ENERGY = 2.0
"""Energy after the activation, up to which the tank recharges while the reference rests [J]."""
MAX_ENERGY = 20.0
"""Capacity of the tank [J]."""
REFERENCE_FORCE = 100.0
"""Energy that the tank receives per metre or radian of reference motion [N]."""
RECHARGING_POWER = 0.02
"""Power that recharges the tank to ``INITIAL_ENERGY`` [W]."""


class NullspaceTank:
    """Energy tank for the work that a nullspace projection adds to a joint spring.

    Equations::

        dE/dt = F^T dx - tau_0^T dr + f_r |dx_r| + P_0,   0 <= E <= E_max
        s     = max(0, 1 - 2 E / E_0)

    - E: Energy in the tank [J]; E_max: ``MAX_ENERGY``; E_0: ``INITIAL_ENERGY``.
    - tau_0: Torques of spring and damper before the projection, (n,) [Nm].
    - F: Wrench that the projection removes from tau_0, (6,) [N, Nm].
    - dx, dx_r: Velocities of the tool, (6,), and of the reference pose.
    - dr: Velocity at which the desired configuration is shifted, (n,) [rad/s].
    - f_r: ``REFERENCE_FORCE``; P_0: ``RECHARGING_POWER``, zero for E >= E_0.
    - s: Fraction of the tool motion that the desired configuration follows.

    A projected spring does not resist tool motion. If an external or unmodelled force moves the
    tool, it deflects the spring without work, and the spring then accelerates the nullspace motion
    with this energy. The arm could oscillate without end. The tank pays for the energy. As it
    empties, the desired configuration follows the tool motion (s = 1), which then no longer
    deflects the spring. Motion of the reference refills the tank.

    Source: Dietrich, Ott and Stramigioli, IEEE RA-L 2016 (energy tanks for projected springs).

    Args:
        period: Time between two updates [s].

    Attributes:
        energy: Energy E [J].
        followed: Fraction s, 0 to 1.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._recharged = RECHARGING_POWER * period
        self.reset()

    def reset(self) -> None:
        """Fill the tank to ``INITIAL_ENERGY``."""
        self.energy, self.followed = INITIAL_ENERGY, 0.0
        self._reference: Vector | None = None
        self._bytes = b""

    def update(self, reference: Vector | None, work: float) -> None:
        """Change the energy by the work since the last update.

        Args:
            reference: Reference pose, as a position and a rotation matrix, (12,); None for a
                controllet without a pose.
            work: Integral of F^T dx - tau_0^T dr since the last update [J].
        """
        energy = self.energy + work
        if energy < INITIAL_ENERGY:
            energy += self._recharged
        if reference is not None and reference.tobytes() != self._bytes:
            if self._reference is not None:
                moved = subtract(reference, self._reference).tolist()
                energy += REFERENCE_FORCE * hypot(*moved)
            self._reference, self._bytes = reference.copy(), reference.tobytes()
        self.energy = min(max(energy, 0.0), MAX_ENERGY)
        self.followed = max(0.0, 1.0 - 2.0 * self.energy / INITIAL_ENERGY)
