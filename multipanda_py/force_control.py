# SPDX-License-Identifier: Apache-2.0
"""Force control along one direction, with an energy tank and contact-loss shaping."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ForceGains:
    """Gains and limits of a :class:`ForceController`.

    Attributes:
        kp: Proportional gain on the force error [-].
        ki: Integral gain [1/s].
        kd: Derivative gain on the filtered force error [s].
        filter_time: Time constant of the force measurement [s].
        integral_limit: Largest force of the integral part [N].
        contact_force: Measured force from which contact counts as made [N].
        loss_distance: d_max of the contact-loss shaping [m].
        release_time: Time constant with which force fades once contact is lost [s].
        search_force: Force that stays after contact was lost, to find it again nearby [N].
        tank_gain: K_p of the initial tank energy E_0 = K_p F_d^2 / 2 [J/N^2 times 2].
        tank_max: Upper limit of the tank [J].
        tank_low: Energy below which injection is throttled [J].
    """

    kp: float
    ki: float
    kd: float
    filter_time: float
    integral_limit: float
    contact_force: float
    loss_distance: float
    release_time: float
    search_force: float
    tank_gain: float
    tank_max: float
    tank_low: float


class ForceController:
    r"""Bring a scalar contact force to its goal without making the robot active.

    .. math::
        F_f = F_d + c \left( k_p \tilde F + k_i \int \tilde F\,dt + k_d \dot{\tilde F} \right),
        \qquad F'_f = \left( \gamma_f + \alpha_f (1 - \gamma_f) \right) F_f

    with :math:`\gamma_f = \exp(-\|x - x_c\|^2 / d_{max}^2)` and the contact point
    :math:`x_c`, where contact was last felt (multipanda_ros2, section IV, eq. 4). The tank
    holds :math:`E_f`, is given :math:`\tfrac12 K_p F_d^2` within its limits and obeys

    .. math:: \dot E_f = \beta P_{diss} - F'_f \dot x

    after Schindlbeck and Haddadin (ICRA 2015): dissipation fills it (:math:`\beta = 0` when
    full), what force control injects empties it, and an empty tank lets no more out.

    Where the paper is silent: :math:`\alpha_f` is the product of the tank's valve and of
    contact *c*, else a full tank would undo the shaping by :math:`\gamma_f`; the PID parts act
    in contact only; after contact is lost the force also fades in time, because 10 N over
    5 cm are more than a soft impedance can take up, down to a small force that searches for the
    surface nearby; :math:`x_c` follows the tool in contact
    and starts where the force was first asked for; a growing goal is worth only what it has
    beyond the largest one before; before the first contact the force is
    shaped by distance only, so that a force target in the air ends within about d_max.

    Attributes:
        energy: In the tank [J].
        contact: Smoothed contact, 0 to 1.
        weight: Factor on the force in the last cycle.
        error: Desired minus filtered measured force [N].
        granted: Energy that the tank was given so far, never more than its limit [J].
        injected: Energy injected so far [J]; negative parts count as returned.

    Thread: control.
    """

    CONTACT_TIME = 0.01
    """Time constant of the contact signal, so that single bad samples do not count [s]."""
    LOST_FORCE = 0.1
    """Share of ``contact_force`` below which contact counts as lost."""

    def __init__(self, gains: ForceGains, period: float) -> None:
        self.gains, self._period = gains, period
        self.reset()

    def reset(self) -> None:
        """Forget contact, integral and energy, at activation."""
        self.energy = self.contact = self.weight = self.error = 0.0
        self.granted = self.injected = 0.0
        self._integral = self._measured = self._old_error = self._fade = 0.0
        self._touching = self._touched = False

    def resume(self, force: float) -> None:
        """Begin in contact, with a force that is there already [N]."""
        self.grant(force)
        self._measured, self.contact, self._fade = force, 1.0, 1.0
        self._touching = self._touched = True

    def grant(self, desired: float) -> None:
        """Fill the tank with what a goal is worth beyond the largest goal so far [N]."""
        worth = min(0.5 * self.gains.tank_gain * desired * desired, self.gains.tank_max)
        if worth > self.granted:
            self.energy += worth - self.granted
            self.granted = worth

    @property
    def touching(self) -> bool:
        """Whether contact is felt now; the owner moves its contact point along while it is."""
        return self._touching

    def step(
        self, desired: float, measured: float, distance: float, speed: float, dissipated: float
    ) -> float:
        """Return the force of this cycle [N].

        Args:
            desired: Force that the tool is to exert along its direction [N], not negative.
            measured: Force that it exerts [N].
            distance: Of the tool from the contact point [m].
            speed: Of the tool along the direction of the force [m/s].
            dissipated: Power that damping takes out of the motion, for this tank [W].
        """
        g, period = self.gains, self._period
        self._measured += period / (g.filter_time + period) * (measured - self._measured)
        self._feel(g, desired)
        self.error = desired - self._measured
        force = desired + self.contact * self._pid(g, desired)
        near = math.exp(-((distance / g.loss_distance) ** 2))
        if self._touched and not self._touching:
            self._fade *= math.exp(-period / g.release_time)
            search = min(1.0, g.search_force / desired) if desired > 0.0 else 1.0
            near *= max(self._fade, search)
        valve = min(1.0, self.energy / g.tank_low)
        self.weight = near + valve * self.contact * (1.0 - near)
        force *= self.weight
        power = force * speed
        if power > 0.0:
            left = max(0.0, self.energy)
            force = min(force * min(1.0, left / g.tank_low), left / (speed * period))
            power = force * speed
        self.injected += power * period
        self.energy -= power * period
        self.energy = min(self.energy + max(0.0, dissipated) * period, g.tank_max)
        return force

    def _feel(self, g: ForceGains, desired: float) -> None:
        """Update contact, with a hysteresis; only a force that is asked for can be missed."""
        if self._touching:
            missed = self._measured < self.LOST_FORCE * g.contact_force
            self._touching = not (missed and desired > g.contact_force)
        elif self._measured > g.contact_force:
            self._touching = self._touched = True
            self._fade = 1.0
        goal = 1.0 if self._touching else 0.0
        self.contact += self._period / (self.CONTACT_TIME + self._period) * (goal - self.contact)

    def _pid(self, g: ForceGains, desired: float) -> float:
        """Return the PID part; the integral runs in contact only and stays within its limit."""
        if self._touching:
            self._integral += g.ki * self.error * self._period
            limit = g.integral_limit
            self._integral = max(-limit, min(limit, self._integral))
        else:
            self._integral *= math.exp(-self._period / g.release_time)
        slope = (self.error - self._old_error) / self._period
        self._old_error = self.error
        # A force controller pushes; it may let go, but it does not pull.
        return max(-desired, g.kp * self.error + self._integral + g.kd * slope)
