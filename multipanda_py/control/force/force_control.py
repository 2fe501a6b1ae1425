# SPDX-License-Identifier: Apache-2.0
"""Passive control of a scalar contact force, and its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from multipanda_py.control.force.energy_tank import EnergyTank
from multipanda_py.parameters import number


@dataclass(frozen=True)
class ForceGains:
    """Gains and limits of a ``ForceController``.

    Attributes:
        kp: Proportional gain on the force error (desired minus measured force) [-].
        ki: Integral gain on the force error [1/s].
        kd: Derivative gain on the force error [s].
        filter_time: Time constant of the low-pass filter on desired and measured force [s].
        integral_limit: Maximum force of the integral part [N].
        contact_force: Measured force above which the tool counts as in contact [N].
        approach_speed: Speed of the search for contact [m/s].
        loss_distance: Distance d_max over which a force fades after contact is lost [m].
        release_time: Time constant with which the force fades after a loss of contact [s].
        search_force: Force to which the desired force fades after a loss of contact [N]. The tool
            then searches for the surface with this force.
        tank_gain: Gain K_p of the tank energy K_p F_d^2 / 2 for a desired force F_d [J/N^2].
        tank_max: Capacity of the energy tank [J].
        tank_power: Recharging power of the tank [W].
        tank_low: Tank energy below which the force is reduced [J].
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
    """Force controller of one direction, passive through an energy tank.

    Equation::

        F = F_f + c gamma (k_p e + k_i integral(e) + k_d de/dt) + B (v_a - dx)
        B = omega_B m

    - F: Commanded force along the direction [N].
    - F_f: Feed-forward force [N].
    - e: Force error, desired minus measured force, both filtered [N].
    - c: Smoothed contact state, 0 to 1.
    - gamma: Scale of the desired force after a loss of contact, 0 to 1.
    - k_p, k_i, k_d: Gains [-, 1/s, s].
    - v_a: Approach speed of the search [m/s]; dx: speed of the tool [m/s].
    - B: Damping [N s/m]; omega_B: ``BRAKE_RATE`` [1/s]; m: effective mass [kg].

    *Search.* Before contact, F_f is the integral of ``max(omega_B B / 4, k_h / 2) (v_a - dx)``,
    limited to the desired force. k_h is the ``opposing_stiffness`` of ``step``. v_a is limited to
    F / (4 sqrt(k m)) with k = ``MAX_CONTACT_STIFFNESS``, or to ``SAFE_SEARCH_SPEED`` if that is
    higher. The search ends at ``SEARCH_DISTANCE_RATIO`` times d_max from its start.

    *In contact.* v_a becomes zero, and F_f approaches the desired force at ``FORCE_RATE``.

    *After a loss of contact.* Scale of the desired force (multipanda_ros2, section IV, eq. 4)::

        gamma   = gamma_f + alpha_f (1 - gamma_f)
        gamma_f = exp(-|x - x_c|^2 / d_max^2)

    - x: Position of the tool; x_c: position of the last contact [m].
    - d_max: ``loss_distance`` [m].
    - alpha_f: Product of the contact state c and the valve s, see *Energy*.

    The force also fades in time, down to ``search_force``. Contact is lost when the filtered
    measured force falls below ``LOST_FORCE_FRACTION`` times ``contact_force``. For a tool faster
    than ``RUNAWAY_SPEED``, the threshold is ``CONTACT_LOSS_FRACTION`` times the larger of
    ``contact_force`` and F_f.

    *Energy.* The tank (``EnergyTank``) receives the energy K_p F_d^2 / 2 of the desired force F_d,
    with K_p ``tank_gain``. Below the energy E_low ``tank_low``, the valve s = min(1, E / E_low)
    reduces a force that does work. A force against the motion (F dx <= 0) is limited to -B dx + s
    F.

    Args:
        gains: Gains and limits.
        period: Cycle time [s].

    Attributes:
        tank: Energy tank of the force.
        contact: Smoothed contact state c, 0 to 1.
        weight: Scale gamma of the desired force in the last cycle.
        error: Force error e [N].
        is_idle: True if no force is desired and none is fading out.
        is_controlled: True if the measured force is fed back. Otherwise only a loss of contact is
            detected.
        is_lost: True if the search has ended without contact.
        is_held_back: True if the maximum force has acted for one second, but the tool neither
            approaches a contact nor reaches the desired force.
        is_throttled: True if the tank has limited the force of the last cycle.

    Thread: control.
    """

    CONTACT_TIME = 0.01
    """Time constant of the contact state, which suppresses single outliers [s]."""
    LOST_FORCE_FRACTION = 0.1
    """Fraction of ``contact_force`` below which contact counts as lost."""
    CONTACT_LOSS_FRACTION = 0.1
    """Fraction of the larger of ``contact_force`` and F_f, below which a fast tool has lost
    contact."""
    RUNAWAY_SPEED = 0.05
    """Speed above which a tool counts as fast [m/s]. The search does not exceed 0.03 m/s, and a
    tool in contact with 1e3 N/m or more hardly reaches this value."""
    QUICK_TIME = 0.003
    """Time constant of the measurement for fast tools, which suppresses single outliers [s]."""
    BRAKE_RATE = 30.0
    """Damping rate omega_B [1/s]. It is about a fifth of the stability limit at 5 ms delay and 2
    ms lag."""
    MAX_CONTACT_STIFFNESS = 1e5
    """Stiffness of the hardest contact that the search must tolerate [N/m]."""
    SAFE_SEARCH_SPEED = 0.01
    """Search speed that the hardest contact tolerates at a small force [m/s]."""
    SLOW_FORCE = 8.0
    """Goal force below which the search is slower, because an impact is relatively larger [N]."""
    MIN_CONTACT_STATE = 1e-3
    """Contact state below which the contact counts as ended."""
    FORCE_RATE = 100.0
    """Rate at which the force follows the goal [N/s]."""
    FALL_RATE = 1000.0
    """Rate at which a feed-forward above the goal decreases out of contact [N/s]."""
    MIN_GAIN_RATIO = 0.5
    """Minimum ratio of search gain to opposing stiffness. It lets light end effectors reach a
    third of the desired speed."""
    SEARCH_DISTANCE_RATIO = 2.0
    """Search distance in units of ``loss_distance``."""
    TIMEOUT = 1.0
    """Time after which a full force without contact or without its goal counts as held back
    [s]."""

    def __init__(self, gains: ForceGains, period: float) -> None:
        self._period = period
        self.tank = EnergyTank(period)
        self.set_gains(gains)
        self.reset()

    def set_gains(self, gains: ForceGains) -> None:
        self.gains = gains
        self.tank.limit, self.tank.power = gains.tank_max, gains.tank_power

    def reset(self) -> None:
        """Clear contact state, force integral and tank energy."""
        self.tank.reset()
        self.weight = 0.0
        self._rest()

    def _rest(self) -> None:
        self.contact = self.error = 0.0
        self._aim = self._goal = self._push = 0.0
        self._integral = self._measured = self._quick = self._old_error = self._fade = 0.0
        self._touching = self._touched = self.is_lost = self.is_throttled = False
        self._stuck, self.is_held_back = 0.0, False
        self.is_idle = self.is_controlled = True

    def resume(self, force: float, controlled: bool = True) -> None:
        """Continue a contact force that the tool already exerts.

        Args:
            force: Exerted force, which becomes the desired force [N].
            controlled: True for force feedback from now on; False for none until a new force is
                requested.
        """
        self.grant(force)
        self._aim = self._goal = self._push = self._measured = self._quick = force
        self.contact = self._fade = 1.0
        self._touching = self._touched = True
        self.is_idle, self.is_controlled = False, controlled

    def grant(self, desired: float) -> None:
        """Raise the granted energy of the tank to K_p F_d^2 / 2, with K_p ``tank_gain``.

        A lower value than before has no effect.

        Args:
            desired: Desired force F_d [N].
        """
        self.tank.grant(0.5 * self.gains.tank_gain * desired * desired)

    @property
    def measured(self) -> float:
        """Filtered measured force of the tool [N]."""
        return self._measured

    @property
    def touching(self) -> bool:
        """True while contact is detected."""
        return self._touching

    @property
    def touched(self) -> bool:
        """True if contact was detected since the force was requested."""
        return self._touched

    def step(
        self,
        desired: float,
        measured: float,
        distance: float,
        speed: float,
        mass: float,
        opposing_stiffness: float = 0.0,
    ) -> float:
        """Advance the controller by one cycle, and return the force along its direction [N].

        Args:
            desired: Desired force of the tool along its direction, not negative [N].
            measured: Measured force of the tool along its direction [N].
            distance: Distance of the tool from the last contact, or from the start of the search
                [m].
            speed: Speed of the tool along the direction [m/s].
            mass: Effective mass along the direction [kg].
            opposing_stiffness: Stiffness k_h of a spring that opposes the search [N/m]; 0 without
                one.
        """
        g, period = self.gains, self._period
        over = desired <= 0.0 and self._aim <= 0.0
        if over and self._push <= 0.0 and self.contact < self.MIN_CONTACT_STATE:
            self._rest()
            return 0.0
        self.is_idle = False
        max_value = self.FORCE_RATE * period
        self._aim += max(-max_value, min(max_value, desired - self._aim))
        follow = period / (g.filter_time + period)
        self._measured += follow * (measured - self._measured)
        # The desired force passes the same filter as the measurement. The delay of the filter
        # would otherwise cause a force error.
        self._goal += follow * (self._aim - self._goal)
        if over:
            self._touching = False
        self._detect_contact(g, self._aim, measured, speed)
        self.error = self._goal - self._measured
        gamma = self._update_gamma(g, distance, desired)
        force = self._feedforward_and_damping(gamma, distance, speed, mass, opposing_stiffness)
        if self.is_controlled:
            force += self.contact * gamma * self._pid(g, self._aim)
        return self._limit_by_tank(force, speed, mass)

    def _update_gamma(self, g: ForceGains, distance: float, desired: float) -> float:
        gamma = 1.0
        if self._touched and not self._touching:
            self._fade *= math.exp(-self._period / g.release_time)
            gamma = math.exp(-((distance / g.loss_distance) ** 2))
            gamma *= max(self._fade, min(1.0, g.search_force / max(desired, 1e-9)))
            valve = min(1.0, self.tank.usable / g.tank_low)
            # Without the contact state, gamma would be 1 with a full tank.
            gamma += valve * self.contact * (1.0 - gamma)
        self.weight = gamma
        return gamma

    def _feedforward_and_damping(
        self, gamma: float, distance: float, speed: float, mass: float, opposing_stiffness: float
    ) -> float:
        g, period = self.gains, self._period
        reach = self.SEARCH_DISTANCE_RATIO * g.loss_distance
        left = min(1.0, max(0.0, (reach - distance) / (0.2 * reach)))
        self.is_lost = left < 0.25 and not self._touching
        safe_speed = max(
            self.SAFE_SEARCH_SPEED, 0.25 * self._aim / math.sqrt(self.MAX_CONTACT_STIFFNESS * mass)
        )
        pace = (1.0 - self.contact) * left * min(g.approach_speed, safe_speed)
        slow = pace * min(1.0, self._aim / self.SLOW_FORCE) - speed
        brake = self.BRAKE_RATE * mass
        max_value = gamma * self._aim
        if self._touching:
            step = self.FORCE_RATE * period
            self._push += max(-step, min(step, max_value - self._push))
            stuck = self._integral >= g.integral_limit and self.error > 0.05 * self._goal
        else:
            gain = max(0.25 * self.BRAKE_RATE * brake, self.MIN_GAIN_RATIO * opposing_stiffness)
            self._push = max(0.0, self._push + gain * slow * period)
            over = self._push - max_value
            if over > 0.0:
                self._push -= min(over, self.FALL_RATE * period)
            stuck = self._push >= max_value and speed < 0.1 * (slow + speed)
        self._stuck = self._stuck + period if stuck else 0.0
        self.is_held_back = self._stuck > self.TIMEOUT
        return self._push + brake * slow

    def _limit_by_tank(self, force: float, speed: float, mass: float) -> float:
        power = force * speed
        left = self.tank.usable
        if power <= 0.0:
            valve = min(1.0, left / self.gains.tank_low)
            self.is_throttled = valve < 1.0 and force > 0.0
            if not self.is_throttled:
                return force
            # The tool moves against the force, which then absorbs energy. The limit rises
            # continuously with the speed to the full force. A jump at zero speed would cause
            # oscillation.
            return min(force, valve * force - self.BRAKE_RATE * mass * speed)
        factor = min(1.0, left / self.gains.tank_low, 0.5 * left / (power * self._period))
        self.is_throttled = factor < 1.0
        return factor * force

    def _detect_contact(
        self, g: ForceGains, desired: float, measured: float, speed: float
    ) -> None:
        self._quick += self._period / (self.QUICK_TIME + self._period) * (measured - self._quick)
        # A fast tool whose force is below a fraction of the commanded force has lost its contact.
        # The fraction is small, because the force of a soft contact rises slowly.
        min_value = self.CONTACT_LOSS_FRACTION * max(g.contact_force, self._push)
        runs_away = self._touched and speed > self.RUNAWAY_SPEED and self._quick < min_value
        # After a loss of contact, the slow filter still contains the old force. The lower of the
        # slow and the quick filter therefore decides about a new contact.
        estimated = min(self._measured, self._quick)
        if self._touching:
            missed = self._measured < self.LOST_FORCE_FRACTION * g.contact_force or runs_away
            self._touching = not (missed and desired > g.contact_force)
        elif estimated > g.contact_force and desired > 0.0 and not runs_away:
            self._touching = self._touched = True
            self._fade = 1.0
        goal = 1.0 if self._touching else 0.0
        time = self.CONTACT_TIME if desired > 0.0 else max(g.release_time, self.CONTACT_TIME)
        self.contact += self._period / (time + self._period) * (goal - self.contact)

    def _pid(self, g: ForceGains, desired: float) -> float:
        if self._touching:
            self._integral += g.ki * self.error * self._period
            limit = g.integral_limit
            self._integral = max(-limit, min(limit, self._integral))
        else:
            self._integral *= math.exp(-self._period / g.release_time)
        slope = (self.error - self._old_error) / self._period
        self._old_error = self.error
        # A tool can only push. The PID terms may therefore cancel the desired force, but they may
        # not reverse it.
        return max(-desired, g.kp * self.error + self._integral + g.kd * slope)


TANK_LOW = 0.05
"""Tank energy below which the force is throttled [J]."""


@dataclass(frozen=True, eq=False)
class ForceParams:
    """Gains of the force controller, common to the controllets with force control."""

    # The bounds of these gains keep force control stable on contacts of 1e3 to 1e5 N/m at high
    # latency.
    kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain")
    kd: float = number(0.0, unit="s", low=0, high=5e-4, doc="derivative gain")
    filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    integral_limit: float = number(
        20.0, unit="N", low=0, high=100, doc="maximum force of the integral part"
    )
    contact_force: float = number(
        1.0, unit="N", low=0.01, high=50,
        doc="measured force above which the tool counts as in contact",
    )  # fmt: skip
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03,
        doc="speed of the search for contact; the impact peak is F + v sqrt(k m); above 0.01, "
        "v is limited to F / (4 sqrt(k m)) with k = 1e5 N/m",
    )  # fmt: skip
    loss_distance: float = number(
        0.05,
        unit="m",
        low=0.001,
        high=0.5,
        doc="distance d_max over which a force fades after contact is lost",
    )
    release_time: float = number(
        0.03, unit="s", low=0.001, high=0.05,
        doc="time constant with which the force fades after a loss of contact",
    )  # fmt: skip
    search_force: float = number(
        1.5, unit="N", low=0, high=20,
        doc="remaining force that searches for the surface after a loss of contact",
    )  # fmt: skip
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="gain K_p of the initial tank energy K_p F_d^2 / 2"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="capacity of each tank")
    tank_power: float = number(
        2.0, unit="W", low=0, high=100,
        doc="recharging power of each tank up to its granted energy, for work against friction",
    )  # fmt: skip

    def gains(self) -> ForceGains:
        return ForceGains(
            self.kp, self.ki, self.kd, self.filter_time, self.integral_limit,
            self.contact_force, self.approach_speed, self.loss_distance, self.release_time,
            self.search_force, self.tank_gain, self.tank_max, self.tank_power,
            tank_low=TANK_LOW,
        )  # fmt: skip
