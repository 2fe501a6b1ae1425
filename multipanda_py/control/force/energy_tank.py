# SPDX-License-Identifier: Apache-2.0
"""What is said of an energy tank that limits a law."""

from __future__ import annotations

from collections.abc import Callable


class EnergyTank:
    r"""Keep the books of what one part of a law may still do as work.

    .. math::
        E_{k+1} = E_k - W_k + R_k + A_k, \qquad A_k \le P_A T \ \text{while}\ E < E_{granted}

    with :math:`W_k` the work that the part's torque really did in cycle *k*, signed, and
    :math:`R_k` what dampers took. Summed up, and as long as :math:`E \ge 0` is seen to,

    .. math:: \sum W - \sum R \le E_{granted} + P_A\, t

    The allowance :math:`P_A` is a decision: a motion against friction consumes energy that never
    comes back, so without an allowance every task with friction ends with an empty tank. It
    bounds power instead of energy in the long run, far below what hurts, and it only replaces
    what a tank has lost: a full one is given nothing. Tanks and their initial energy are after
    Schindlbeck and Haddadin (ICRA 2015) and Haddadin and Shahriari (IJRR 2024).

    Attributes:
        energy: What is left [J].
        granted: Given once, by whoever asked for a task [J].
        allowed: Given by the allowance so far [J].
        limit: The most that the tank may hold [J].
        power: The allowance :math:`P_A` [W].

    Thread: control.
    """

    RESERVE = 1e-3
    """Kept back, so that a cycle whose work was underestimated does not overdraw [J]."""

    def __init__(self, period: float) -> None:
        self._period = period
        self.energy = self.granted = self.allowed = 0.0
        self.limit = self.power = 0.0

    def reset(self) -> None:
        """Empty the tank, at activation."""
        self.energy = self.granted = self.allowed = 0.0

    def grant(self, worth: float) -> None:
        """Give what a task is worth beyond what was granted already, within the limit [J]."""
        worth = min(worth, self.limit)
        if worth > self.granted:
            self.energy += worth - self.granted
            self.granted = worth

    @property
    def missing(self) -> float:
        """What the tank holds less than was granted [J]."""
        return self.granted - self.energy

    @property
    def usable(self) -> float:
        """What may be spent [J]."""
        return max(0.0, self.energy - self.RESERVE)

    def settle(self, work: float, held: float = 0.0) -> float:
        """Book the work of the last cycle and the allowance; return what overflows [J].

        Args:
            work: Done on the arm; negative work was done by the arm and is kept [J].
            held: Part of the energy that is not free but stored in a spring; it does not
                count towards the limit [J].
        """
        self.energy -= work
        missing = self.granted - self.energy
        if missing > 0.0:
            given = min(missing, self.power * self._period)
            self.allowed += given
            self.energy += given
            return 0.0
        over = self.energy - held - self.limit
        if over > 0.0:
            self.energy -= over
            return over
        return 0.0

    def receive(self, energy: float, held: float = 0.0) -> float:
        """Take energy in, or out if negative, up to the limit; return what overflows [J]."""
        self.energy += energy
        over = self.energy - held - self.limit
        if over > 0.0:
            self.energy -= over
            return over
        return 0.0


class SpringTank(EnergyTank):
    r"""Soften a spring as far as its energy is not covered.

    .. math::
        F = \sigma K e, \qquad \sigma = 1 + \alpha_i = \min\left(1, \frac{S}{V}\right), \qquad
        V = \tfrac12 e^T K e, \qquad \dot S = -F^T \dot x + \text{income}

    One account *S* holds what the spring stores and what is free; the set point moves in it for
    nothing, and the work that the spring really does is booked. So a set point that comes back
    brings its energy back, an outside push is stored and not paid for, and what a jump of set
    point or stiffness asks for beyond *S* is held back: :math:`x'_d = x_d + \alpha_i (x_d - x)`
    with :math:`\alpha_i \in [-1, 0]`, the form of multipanda_ros2 (section IV, below eq. 4),
    which gives no law for it. The softened spring is the gradient of :math:`\sigma V \le S`
    while :math:`\sigma` rests, and :math:`S / V` does not change in free motion, so it keeps
    resting. That force and book agree also when it moves is what booking actual work is for.

    Attributes:
        scale: :math:`\sigma`, 0 to 1.
        held: :math:`\sigma V`, the part of the account in the spring [J].
    """

    def __init__(self, period: float) -> None:
        super().__init__(period)
        self.scale, self.held = 1.0, 0.0

    def reset(self) -> None:
        """Begin with a relaxed spring and nothing granted."""
        super().reset()
        self.scale, self.held = 1.0, 0.0

    @property
    def free(self) -> float:
        """What the spring does not hold [J]."""
        return self.energy - self.held

    def soften(self, stored: float, power: float) -> float:
        """Return the factor on the spring's wrench for this cycle.

        Args:
            stored: What the whole spring would hold [J].
            power: What the whole spring would do on the tool now [W].
        """
        # One cycle must not take out more than there is, even if the tool gets faster in it.
        wanted = max(stored, 2.0 * self._period * power)
        usable = self.usable
        self.scale = 1.0 if wanted <= usable else usable / wanted
        self.held = self.scale * stored
        return self.scale


class EnergyNotice:
    """Say once that a tank limits, until it has recovered half of what it was granted.

    Args:
        notify: Takes the words.

    Thread: control.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._is_said = False

    def forget(self) -> None:
        """Begin anew, at activation: nothing was said."""
        self._is_said = False

    def look(self, limits: bool, tank: EnergyTank, name: str, words: Callable[[], str]) -> None:
        """Say it in the first cycle in which the tank limits.

        Args:
            limits: Whether it does in this cycle.
            tank: The one whose recovery counts.
            name: Of who has it.
            words: Returns what is left; it is called when something is said.
        """
        if not limits:
            if self._is_said:
                self._is_said = not tank.missing < 0.5 * tank.granted  # nor one granted nothing
        elif not self._is_said:
            self._is_said = True
            self._notify(f"{name}: out of energy: {words()}")
