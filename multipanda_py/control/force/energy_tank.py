# SPDX-License-Identifier: Apache-2.0
"""Energy tanks that limit the work of springs and force controllers."""

from __future__ import annotations

from collections.abc import Callable


class EnergyTank:
    """Energy budget for the work of one torque term of a controllet.

    Equations::

        E[k+1] = E[k] - W[k] + R[k] + A[k]
        A[k]  <= P_A T while E < E_granted, else 0

    - E: Energy in the tank [J].
    - W: Signed work of the term on the arm in cycle k [J].
    - R: Energy dissipated by dampers in cycle k [J].
    - A: Recharged energy; P_A: recharging power [W]; T: cycle time [s].
    - E_granted: Sum of all energies that ``grant`` has added since the reset [J].

    As long as E >= 0, the net work is bounded::

        sum W - sum R <= E_granted + P_A t   at time t [s]

    Recharging replaces the energy that friction consumes, and never raises E above E_granted.

    Sources: Schindlbeck and Haddadin (ICRA 2015), Haddadin and Shahriari (IJRR 2024).

    Attributes:
        energy: Energy E [J].
        granted: Energy E_granted that the current task has received [J].
        allowed: Total energy recharged since the reset [J].
        limit: Capacity of the tank [J].
        power: Recharging power P_A [W].

    Thread: control.
    """

    RESERVE = 1e-3
    """Reserve that prevents an overdraft if the work of a cycle was underestimated [J]."""

    def __init__(self, period: float) -> None:
        self._period = period
        self.energy = self.granted = self.allowed = 0.0
        self.limit = self.power = 0.0

    def reset(self) -> None:
        """Empty the tank, and set ``granted`` to zero."""
        self.energy = self.granted = self.allowed = 0.0

    def grant(self, total: float) -> None:
        """Add energy to the tank until ``granted`` is ``total`` [J] or the capacity."""
        total = min(total, self.limit)
        if total > self.granted:
            self.energy += total - self.granted
            self.granted = total

    @property
    def missing(self) -> float:
        """Energy ``granted`` minus the energy in the tank [J]; negative if the tank has more."""
        return self.granted - self.energy

    @property
    def usable(self) -> float:
        """Energy available for work: energy in the tank minus ``RESERVE``, 0 or more [J]."""
        return max(0.0, self.energy - self.RESERVE)

    def settle(self, work: float, held: float = 0.0) -> float:
        """Subtract the work of the last cycle from the tank, recharge it, and return the overflow.

        Args:
            work: Work done on the arm [J]. Negative work fills the tank.
            held: Energy of the tank that is stored in a spring [J]. The capacity excludes it.

        Returns:
            Energy above the capacity, which is removed from the tank [J].
        """
        self.energy -= work
        missing = self.granted - self.energy
        if missing > 0.0:
            energy = min(missing, self.power * self._period)
            self.allowed += energy
            self.energy += energy
            return 0.0
        over = self.energy - held - self.limit
        if over > 0.0:
            self.energy -= over
            return over
        return 0.0

    def receive(self, energy: float, held: float = 0.0) -> float:
        """Add energy up to the capacity, and return the part that exceeded it [J].

        Args:
            energy: Energy [J]; subtracted if negative.
            held: Energy of the tank that is stored in a spring [J]. The capacity excludes it.
        """
        self.energy += energy
        over = self.energy - held - self.limit
        if over > 0.0:
            self.energy -= over
            return over
        return 0.0


class SpringTank(EnergyTank):
    """Energy tank of a spring. It scales the spring down if the tank energy is too low.

    Equations::

        F     = sigma K e
        sigma = min(1, S / V)
        V     = 1/2 e^T K e
        dS/dt = -F^T dx + income

    - F: Wrench of the scaled spring, (6,) [N, Nm].
    - sigma: Scale of the spring, 0 to 1.
    - K: Stiffness, (6, 6); e: pose error, (6,) [m, rad]; dx: twist, (6,).
    - V: Potential energy of the unscaled spring [J].
    - S: Energy in the tank, stored in the spring or free [J].
    - income: Power received from dampers and other tanks [W].

    With alpha_i = sigma - 1, this is the setpoint shift of multipanda_ros2, section IV.

    Attributes:
        scale: Scale sigma of the spring, 0 to 1.
        held: Energy sigma V in the scaled spring [J].
    """

    def __init__(self, period: float) -> None:
        super().__init__(period)
        self.scale, self.held = 1.0, 0.0

    def reset(self) -> None:
        """Empty the tank, set ``granted`` to zero, and relax the spring."""
        super().reset()
        self.scale, self.held = 1.0, 0.0

    @property
    def free(self) -> float:
        """Energy that is not stored in the spring [J]."""
        return self.energy - self.held

    def soften(self, stored: float, power: float) -> float:
        """Return the scale of the spring wrench for this cycle, 0 to 1.

        Args:
            stored: Potential energy V of the unscaled spring [J].
            power: Current power of the unscaled spring on the tool [W].
        """
        # The factor 2 is a margin for a tool that accelerates within the cycle. Without this
        # margin, the spring could take more energy than the tank contains.
        desired = max(stored, 2.0 * self._period * power)
        usable = self.usable
        self.scale = 1.0 if desired <= usable else usable / desired
        self.held = self.scale * stored
        return self.scale


class TankLimitNotice:
    """Message to the operator that a lack of energy in a tank reduces forces of a controllet.

    The message is repeated only after the tank has refilled to half of its granted energy.

    Args:
        notify: Function that receives the text of the message.

    Thread: control.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._is_reported = False

    def forget(self) -> None:
        """Allow the next message, even if the tank has not refilled."""
        self._is_reported = False

    def check(
        self, is_limited: bool, tank: EnergyTank, name: str, remaining: Callable[[], str]
    ) -> None:
        """Send the message when the tank begins to limit the controllet.

        Args:
            is_limited: True if the tank reduces a force or wrench of the controllet in this cycle.
            tank: Tank that must recover before the next message.
            name: Name of the arm or controllet.
            remaining: Function that returns the remaining energy as text.
        """
        if not is_limited:
            if self._is_reported:
                self._is_reported = not tank.missing < 0.5 * tank.granted
        elif not self._is_reported:
            self._is_reported = True
            self._notify(f"{name}: out of energy: {remaining()}")
