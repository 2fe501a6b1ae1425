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
    - E_granted: Initial energy of the task [J].

    As long as E >= 0, the net work is bounded::

        sum W - sum R <= E_granted + P_A t   at time t [s]

    Friction consumes energy, so the tank would empty in time. Recharging replaces this energy and
    never raises E above E_granted.

    Sources of the tank and its initial energy: Schindlbeck and Haddadin (ICRA 2015), Haddadin and
    Shahriari (IJRR 2024).

    Attributes:
        energy: Energy E [J].
        granted: Energy granted to the current task, E_granted [J].
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
        """Empty the tank at activation."""
        self.energy = self.granted = self.allowed = 0.0

    def grant(self, worth: float) -> None:
        """Raise the granted energy to ``worth`` [J], up to the capacity. Never lower it."""
        worth = min(worth, self.limit)
        if worth > self.granted:
            self.energy += worth - self.granted
            self.granted = worth

    @property
    def missing(self) -> float:
        """Granted energy minus the energy in the tank [J]; negative if the tank has more."""
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

    Only the work of the spring on the arm and the income change S. A step of the setpoint or the
    stiffness that needs more energy than S scales the spring down.

    The paper on multipanda_ros2 (section IV) shifts the setpoint x_d to x_d + alpha_i (x_d - x),
    with the tool pose x. This is equivalent for alpha_i = sigma - 1. The paper gives no equation
    for alpha_i.

    Attributes:
        scale: Scale sigma of the spring, 0 to 1.
        held: Energy sigma V in the scaled spring [J].
    """

    def __init__(self, period: float) -> None:
        super().__init__(period)
        self.scale, self.held = 1.0, 0.0

    def reset(self) -> None:
        """Start with a relaxed spring and no granted energy."""
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

    The message is repeated only after the tank has refilled to half of the energy that a command
    grants.

    Args:
        notify: Function that receives the text of the message.

    Thread: control.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._is_reported = False

    def forget(self) -> None:
        """Allow the next message, even if the tank has not recovered since the last message."""
        self._is_reported = False

    def check(self, limits: bool, tank: EnergyTank, name: str, words: Callable[[], str]) -> None:
        """Send the message when the tank begins to limit the controllet.

        Args:
            limits: True if the tank reduces a force or wrench of the controllet in this cycle.
            tank: Tank that must recover before the next message.
            name: Name of the arm or controllet.
            words: Function that returns the remaining energy as text.
        """
        if not limits:
            if self._is_reported:
                self._is_reported = not tank.missing < 0.5 * tank.granted
        elif not self._is_reported:
            self._is_reported = True
            self._notify(f"{name}: out of energy: {words()}")
