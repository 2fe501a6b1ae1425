# SPDX-License-Identifier: Apache-2.0
"""Parameters of force control, as laws declare them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from multipanda_py.control.force.energy_tank import EnergyTank
from multipanda_py.parameters import number


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
        approach_speed: Speed with which contact is looked for [m/s].
        loss_distance: d_max of the contact-loss shaping [m].
        release_time: Time constant with which force fades once contact is lost [s].
        search_force: Force that stays after contact was lost, to find it again nearby [N].
        tank_gain: K_p of the initial tank energy E_0 = K_p F_d^2 / 2 [J/N^2 times 2].
        tank_max: Upper limit of the tank [J].
        tank_power: Allowance of the tank [W].
        tank_low: Energy below which injection is throttled [J].
    """

    kp: float
    ki: float
    kd: float
    filter_time: float
    integral_limit: float
    contact_force: float
    approach_speed: float
    loss_distance: float
    release_time: float
    search_force: float
    tank_gain: float
    tank_max: float
    tank_power: float
    tank_low: float


class ForceController:
    r"""Bring a scalar contact force to its goal without making the robot active.

    .. math::
        F = F_f + c\,\gamma \left( k_p \tilde F + k_i \int \tilde F\,dt
            + k_d \dot{\tilde F} \right) + B (v_a - \dot x), \qquad B = \omega_B m

    *Contact is looked for with bounded speed*: the feed-forward :math:`F_f` integrates
    :math:`\max(\tfrac14 \omega_B B, \tfrac12 k_h) (v_a - \dot x)`, with the stiffness
    :math:`k_h` that holds the tool back, never beyond the goal, until contact *c* is felt.
    The peak of an impact at speed *v* on a contact of stiffness *k* is about
    :math:`F + v \sqrt{k m}`, so v is at most a quarter of :math:`F / \sqrt{k m}` with
    ``HARDEST``, or ``SURE_SPEED`` if that is more. *In contact* :math:`v_a` goes to zero and
    :math:`F_f` goes to the goal with ``FORCE_RATE``, which a stiff contact follows without
    ringing; B stays, for the
    spring that would have damped the direction is not there
    (:class:`.ForceSubspace`).

    *After contact is lost* the goal is shaped by
    :math:`\gamma = \gamma_f + \alpha_f (1 - \gamma_f)`,
    :math:`\gamma_f = \exp(-\|x - x_c\|^2 / d_{max}^2)`, with the contact point :math:`x_c` where
    contact was last felt (multipanda_ros2, section IV, eq. 4).
    Contact is lost when the filtered force falls below ``LOST_FORCE`` times ``contact_force``,
    or sooner, as a tool that nothing holds runs on: with :math:`v > v_L` (``RUNAWAY``) and
    :math:`F_q < 0.1 \max(F_c, F_f)` (``LOST_SHARE``), :math:`F_q` the measured force with
    3 ms (``QUICK_TIME``), :math:`F_c` ``contact_force``.

    The tank (:class:`.EnergyTank`) is given
    :math:`\tfrac12 K_p F_d^2` within its limits. What force control does as work empties it,
    what it takes fills it, and an empty tank lets no more out. Where a tool gives way
    (:math:`F v \le 0`), the valve :math:`s = \min(1, E / E_{low})` leaves
    :math:`\min(F,\, s F - \omega_B m v)`: a force that an empty tank lets out in one
    direction only is a relay in the sign of the speed, and swings an arm that is late.

    Where the paper is silent: :math:`\alpha_f` is the product of the tank's valve and of
    contact *c*, else a full tank would undo the shaping by :math:`\gamma_f`; the PID parts act
    in contact only; after contact is lost the force also fades in time, down to a small force
    that searches for the surface nearby; a growing goal is worth only what it has beyond the
    largest one before. The search before the first contact ends at ``REACH`` times d_max from
    where the force was asked for, and so does the one after a loss.

    Attributes:
        tank: Its energy.
        contact: Smoothed contact, 0 to 1.
        weight: Factor on the goal in the last cycle.
        error: Filtered desired minus measured force [N].
        is_idle: No force is asked for, and none is left of an earlier one.
        is_controlled: Whether the measured force is fed back; else only its loss is noticed.
        is_lost: The search has ended without a contact.
        is_held_back: All of the force has been given for a second, and the goal is not reached.
        is_throttled: The tank does not cover the force of the last cycle.

    Thread: control.
    """

    CONTACT_TIME = 0.01
    """Time constant of the contact signal, so that single bad samples do not count [s]."""
    LOST_FORCE = 0.1
    """Share of ``contact_force`` below which contact counts as lost."""
    LOST_SHARE = 0.1
    """Share of the force below which a tool that runs on is known to push nothing."""
    RUNAWAY = 0.05
    """Speed from which that is asked: beyond the fastest search, 0.03, and hardly reached by a
    tool that still presses on 1e3 N/m or more [m/s]. Own choice."""
    QUICK_TIME = 0.003
    """Time constant of the measurement that counts then: single bad samples do not [s]."""
    BRAKE_RATE = 30.0
    """:math:`\\omega_B`: with 5 ms of delay and a lag of 2 ms, about a fifth of what is
    possible [1/s]."""
    HARDEST = 1e5
    """Stiffness of a contact that is always reckoned with [N/m]."""
    SURE_SPEED = 0.01
    """Speed of search that such a contact stands with a small force, too [m/s]."""
    SLOW_FORCE = 8.0
    """Goal below which contact is looked for more slowly, as an impact weighs more [N]."""
    NO_CONTACT = 1e-3
    """Contact below which nothing is left of it."""
    FORCE_RATE = 100.0
    """With which the goal is followed [N/s]."""
    FALL_RATE = 1000.0
    """With which a feed-forward beyond the goal is taken back out of contact [N/s]."""
    AGAINST = 0.5
    """Least gain of the search over a stiffness that holds the tool back: light hands, too, come
    at a third of the speed that is asked for."""
    REACH = 2.0
    """Where the search ends, in units of ``loss_distance``."""
    PATIENCE = 1.0
    """Time in which a force that is given takes a free tool to a contact, or to its goal [s]."""

    def __init__(self, gains: ForceGains, period: float) -> None:
        self._period = period
        self.tank = EnergyTank(period)
        self.set_gains(gains)
        self.reset()

    def set_gains(self, gains: ForceGains) -> None:
        """Take new gains over."""
        self.gains = gains
        self.tank.limit, self.tank.power = gains.tank_max, gains.tank_power

    def reset(self) -> None:
        """Forget contact, integral and energy, at activation."""
        self.tank.reset()
        self.weight = 0.0
        self._rest()

    def _rest(self) -> None:
        """Forget the force that was."""
        self.contact = self.error = 0.0
        self._aim = self._goal = self._push = 0.0
        self._integral = self._measured = self._quick = self._old_error = self._fade = 0.0
        self._touching = self._touched = self.is_lost = self.is_throttled = False
        self._stuck, self.is_held_back = 0.0, False
        self.is_idle = self.is_controlled = True

    def resume(self, force: float, controlled: bool = True) -> None:
        """Begin in contact, with a force that is there already.

        Args:
            force: The goal, and what is measured [N].
            controlled: Whether to control it at once, or only to feed it forward until asked.
        """
        self.grant(force)
        self._aim = self._goal = self._push = self._measured = self._quick = force
        self.contact = self._fade = 1.0
        self._touching = self._touched = True
        self.is_idle, self.is_controlled = False, controlled

    def grant(self, desired: float) -> None:
        """Fill the tank with what a goal is worth beyond the largest goal so far [N]."""
        self.tank.grant(0.5 * self.gains.tank_gain * desired * desired)

    @property
    def measured(self) -> float:
        """What the tool exerts, filtered [N]."""
        return self._measured

    @property
    def touching(self) -> bool:
        """Whether contact is felt now; the owner moves its contact point along while it is."""
        return self._touching

    @property
    def touched(self) -> bool:
        """Whether contact has been felt since the force was asked for."""
        return self._touched

    def step(
        self,
        desired: float,
        measured: float,
        distance: float,
        speed: float,
        mass: float,
        held_by: float = 0.0,
    ) -> float:
        """Return the force of this cycle [N].

        Args:
            desired: Force that the tool is to exert along its direction [N], not negative.
            measured: Force that it exerts [N].
            distance: Of the tool from the contact point [m].
            speed: Of the tool along the direction of the force [m/s].
            mass: Effective mass along that direction [kg].
            held_by: Stiffness with which the owner holds the tool back on its way [N/m].
        """
        g, period = self.gains, self._period
        over = desired <= 0.0 and self._aim <= 0.0
        if over and self._push <= 0.0 and self.contact < self.NO_CONTACT:
            self._rest()
            return 0.0
        self.is_idle = False
        most = self.FORCE_RATE * period
        self._aim += max(-most, min(most, desired - self._aim))
        follow = period / (g.filter_time + period)
        self._measured += follow * (measured - self._measured)
        self._goal += follow * (self._aim - self._goal)  # else a force that rises would lead
        if over:
            self._touching = False
        self._feel(g, self._aim, measured, speed)
        self.error = self._goal - self._measured
        near = self._shape(g, distance, desired)
        force = self._advance(near, distance, speed, mass, held_by)
        if self.is_controlled:
            force += self.contact * near * self._pid(g, self._aim)
        return self._afford(force, speed, mass)

    def _shape(self, g: ForceGains, distance: float, desired: float) -> float:
        """Return the factor on the goal; below one only once contact was lost."""
        near = 1.0
        if self._touched and not self._touching:
            self._fade *= math.exp(-self._period / g.release_time)
            near = math.exp(-((distance / g.loss_distance) ** 2))
            near *= max(self._fade, min(1.0, g.search_force / max(desired, 1e-9)))
            valve = min(1.0, self.tank.usable / g.tank_low)
            near += valve * self.contact * (1.0 - near)
        self.weight = near
        return near

    def _advance(
        self, near: float, distance: float, speed: float, mass: float, held_by: float
    ) -> float:
        """Return feed-forward and damping, and update the former."""
        g, period = self.gains, self._period
        reach = self.REACH * g.loss_distance
        left = min(1.0, max(0.0, (reach - distance) / (0.2 * reach)))
        self.is_lost = left < 0.25 and not self._touching
        sure = max(self.SURE_SPEED, 0.25 * self._aim / math.sqrt(self.HARDEST * mass))
        pace = (1.0 - self.contact) * left * min(g.approach_speed, sure)
        slow = pace * min(1.0, self._aim / self.SLOW_FORCE) - speed
        brake = self.BRAKE_RATE * mass
        most = near * self._aim
        if self._touching:
            step = self.FORCE_RATE * period
            self._push += max(-step, min(step, most - self._push))
            stuck = self._integral >= g.integral_limit and self.error > 0.05 * self._goal
        else:
            gain = max(0.25 * self.BRAKE_RATE * brake, self.AGAINST * held_by)
            self._push = max(0.0, self._push + gain * slow * period)
            over = self._push - most
            if over > 0.0:
                self._push -= min(over, self.FALL_RATE * period)
            stuck = self._push >= most and speed < 0.1 * (slow + speed)
        self._stuck = self._stuck + period if stuck else 0.0
        self.is_held_back = self._stuck > self.PATIENCE
        return self._push + brake * slow

    def _afford(self, force: float, speed: float, mass: float) -> float:
        """Return the force [N], less if the tank does not cover what it does in this cycle."""
        power = force * speed
        left = self.tank.usable
        if power <= 0.0:
            valve = min(1.0, left / self.gains.tank_low)
            self.is_throttled = valve < 1.0 and force > 0.0
            if not self.is_throttled:
                return force
            # Continuous in the speed: the force that came back at once made a relay of it.
            return min(force, valve * force - self.BRAKE_RATE * mass * speed)
        factor = min(1.0, left / self.gains.tank_low, 0.5 * left / (power * self._period))
        self.is_throttled = factor < 1.0
        return factor * force

    def _feel(self, g: ForceGains, desired: float, measured: float, speed: float) -> None:
        """Update contact, with a hysteresis; only a force that is asked for can be missed."""
        self._quick += self._period / (self.QUICK_TIME + self._period) * (measured - self._quick)
        least = self.LOST_SHARE * max(g.contact_force, self._push)  # soft things are felt late
        runs_away = self._touched and speed > self.RUNAWAY and self._quick < least
        felt = min(self._measured, self._quick)  # the slow one still feels what is gone
        if self._touching:
            missed = self._measured < self.LOST_FORCE * g.contact_force or runs_away
            self._touching = not (missed and desired > g.contact_force)
        elif felt > g.contact_force and desired > 0.0 and not runs_away:
            self._touching = self._touched = True
            self._fade = 1.0
        goal = 1.0 if self._touching else 0.0
        time = self.CONTACT_TIME if desired > 0.0 else max(g.release_time, self.CONTACT_TIME)
        self.contact += self._period / (time + self._period) * (goal - self.contact)

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


TANK_LOW = 0.05
"""Energy below which a tank lets out less and less [J]."""


@dataclass(frozen=True, eq=False)
class ForceParams:
    """Gains of the force part; shared by the laws that control a force."""

    # Bounds: stable on contacts of 1e3 to 1e5 N/m on an arm that is late.
    kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain")
    kd: float = number(0.0, unit="s", low=0, high=5e-4, doc="derivative gain")
    filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    integral_limit: float = number(20.0, unit="N", low=0, high=100, doc="of the integral part")
    contact_force: float = number(
        1.0, unit="N", low=0.01, high=50, doc="measured force from which contact counts as made"
    )
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="with which contact is looked for; bounds the "
        "peak of the impact, about F + v sqrt(k m); beyond 0.01 at most F / (4 sqrt(k m)) "
        "with k = 1e5 N/m",
    )  # fmt: skip
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5, doc="d_max of the contact-loss shaping"
    )
    release_time: float = number(
        0.03, unit="s", low=0.001, high=0.05, doc="with which force fades when contact is lost"
    )
    search_force: float = number(
        1.5, unit="N", low=0, high=20, doc="that stays after contact was lost, to find it again"
    )
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial tank energy K_p F_d^2 / 2"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="upper limit of each tank")
    tank_power: float = number(
        2.0, unit="W", low=0, high=100,
        doc="allowance of each tank that holds less than it was granted, for work on friction",
    )  # fmt: skip

    def gains(self) -> ForceGains:
        """Return what a force controller takes."""
        return ForceGains(
            self.kp, self.ki, self.kd, self.filter_time, self.integral_limit,
            self.contact_force, self.approach_speed, self.loss_distance, self.release_time,
            self.search_force, self.tank_gain, self.tank_max, self.tank_power,
            tank_low=TANK_LOW,
        )  # fmt: skip
