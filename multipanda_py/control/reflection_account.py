# SPDX-License-Identifier: Apache-2.0
"""What a reflected force may give to the hand that feels it."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Vector

_dot = np.dot


class ReflectionAccount:
    r"""Keep the balance of a reflected wrench, and fade it out where it has given too much.

    .. math::
        \dot E = - F^T v + \beta\, \dot q^T D \dot q\ [E < 0], \qquad
        E_F = \frac{|f|^2}{2 \kappa_f} + \frac{|m|^2}{2 \kappa_m}, \\
        s = \min\left(1, \max\left(0, 1 + \frac{E}{E_F} \right)\right), \qquad E \le c\, E_F

    with v the twist of the leader's tool and s the share of the wrench F that it feels.
    :math:`\kappa` is the stiffness that a wall behind the follower has for the leader: a spring
    of it stores :math:`E_F` at that wrench. Who presses against the reflection puts energy in
    and gets it back; a wrench that nobody has pressed up moves a leader that yields no farther
    than such a spring would. That is what the error of an estimate, which pushes the same way
    for ever, has in common with a delayed contact, which gives back more than it got: both run
    into debt and fade, whatever model of the contact holds. At one size of F the share is a
    function of E alone, so what fades on the way out comes back on the way in, and the leader
    never gets more than :math:`E_F` beyond what it gave, but for the share :math:`\beta < 1` of
    what its own dampers took. A bounded account (c) does not pay for what a lossy contact took
    long ago; in free space it is empty. Who presses on feels at least half, who yields may feel
    nothing: that takes what a force that changes its size meanwhile could still give.

    Sources: Hannaford and Ryu, IEEE Trans. Robotics and Automation 2002 (passivity observer);
    Franken, Stramigioli, Misra, Secchi and Macchelli, IEEE Trans. Robotics 2011 (energy tanks
    in teleoperation).

    Attributes:
        energy: E, what the leader has in it; a debt if negative [J].
        share: s.

    Thread: control.
    """

    REPAID = 0.25
    """beta: share of what the dampers of the leader take that pays a debt."""
    SOFTEST = 4.0
    """c: contacts down to this part of the stiffness are paid back in full."""
    LEAST = 0.5
    """Share that whoever presses feels at least."""
    SLOW, SLOW_TURN = 0.2, 1.0
    """Over these speeds of pressing that sets in [m/s], [rad/s]."""
    TINY = 1e-9

    def __init__(self) -> None:
        self.energy, self.share = 0.0, 1.0
        self._force = self._torque = 0.0

    def set_stiffness(self, force: float, torque: float) -> None:
        """Set the stiffnesses that the leader may feel [N/m], [Nm/rad]."""
        self._force, self._torque = 0.5 / force, 0.5 / torque

    def reset(self) -> None:
        """Begin with an even balance."""
        self.energy, self.share = 0.0, 1.0

    def pass_on(
        self, force: float, torque: float, wrench: Vector, twist: Vector, taken: float,
        period: float,
    ) -> float:  # fmt: skip
        """Book one cycle, and return the share of the wrench that the leader feels.

        Args:
            force: Size of the wrench's force [N].
            torque: Size of its torque [Nm].
            wrench: To be reflected, (6,) [N, Nm].
            twist: Of the leader's tool, (6,) [m/s, rad/s].
            taken: Power that the leader's dampers take [W].
            period: Length of the cycle [s].
        """
        stored = force * force * self._force + torque * torque * self._torque
        energy = before = self.energy
        share = 1.0
        if stored > self.TINY:
            power = float(_dot(wrench, twist))
            if energy < 0.0:
                share = max(0.0, 1.0 + energy / stored)
                if power < 0.0 and share < self.LEAST:
                    soon = self.SLOW * force + self.SLOW_TURN * torque
                    share = max(share, self.LEAST * min(1.0, -power / soon))
            energy -= power * period
            if energy < before:
                energy = max(energy, min(before, -stored))
        if energy < 0.0:
            energy = min(0.0, energy + self.REPAID * taken * period)
        self.energy = min(energy, self.SOFTEST * stored) if energy > 0.0 else energy
        self.share = share
        return share
