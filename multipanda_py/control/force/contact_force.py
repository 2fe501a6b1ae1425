# SPDX-License-Identifier: Apache-2.0
"""One of several hands that press: what it is asked for, feels and exerts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.control.force.force_control import ForceController, ForceGains
from multipanda_py.control.force.force_impedance import LEAST_MOBILITY
from multipanda_py.state import ArmState, Vector

SMALLEST = 0.5
"""Requested force from which contact is estimated [N]."""
BEGINS, ENDS = 0.5, 0.2
"""Fractions of the requested force: above the first contact begins, below the second it ends."""
HOLD = 0.5
"""Time below the second fraction after which contact has ended [s]."""
FILTER = 0.01
"""Time constant of the low-pass on the reaction force [s]."""


class ToolContact:
    r"""Estimate whether a tool presses on something with the force that is requested of it.

    With the requested force :math:`F_d`, the estimated external force :math:`F_{ext}` and the
    reaction :math:`r = -F_{ext}^T F_d / \|F_d\|`, low-passed,

    .. math:: \text{contact begins with } r > 0.5\, \|F_d\|, \qquad
        \text{and ends after } r < 0.2\, \|F_d\| \text{ for 0.5 s.}

    Both are needed. The external force alone is also that of an unknown payload or of a biased
    sensor, and the requested force alone that of a tool on its way to the surface. A tool that
    bounces stays in contact.

    Args:
        period: Cycle time [s].

    Attributes:
        is_on: Whether there is contact.

    Thread: control.
    """

    __slots__ = ("_follow", "_hold", "_left", "_reaction", "is_on")

    def __init__(self, period: float) -> None:
        self._follow, self._hold = period / (FILTER + period), max(1, round(HOLD / period))
        self.reset()

    def reset(self) -> None:
        """Begin without contact and without an earlier measurement."""
        self.is_on, self._left = False, 0
        self._reaction: float | None = None

    def pause(self) -> None:
        """Restart the low-pass and the hold time, as cycles are missing before the next one."""
        self._reaction, self._left = None, 1

    def update(self, requested: Sequence[float], external: Sequence[float]) -> None:
        """Update by the forces of one cycle, both along the same axes, (3,) [N]."""
        (x, y, z), (fx, fy, fz) = requested, external
        size = math.sqrt(x * x + y * y + z * z)
        if size < SMALLEST:
            reaction, size = 0.0, SMALLEST
        else:
            reaction = -(x * fx + y * fy + z * fz) / size
        if self._reaction is not None:
            reaction = self._reaction + self._follow * (reaction - self._reaction)
        self._reaction = reaction
        if reaction > (ENDS if self.is_on else BEGINS) * size:
            self.is_on, self._left = True, self._hold
        elif self.is_on:
            self._left -= 1
            self.is_on = self._left > 0


_dot, _multiply, _subtract = np.dot, np.multiply, np.subtract


class PressingHand:
    """Direction, contact and force controller of one hand.

    Args:
        name: Of the arm.
        period: Cycle time [s].
        gains: Of the force part.

    Attributes:
        name: Of the arm.
        force: The controller.
        asked: The wrench that it is to exert, (6,) [N, Nm].
        size: Of that; zero for none.
        direction: *u*, in which force is controlled now, (6,).
        felt: Force that the hand exerts along it, measured [N].
        speed: Along it [m/s].
        mass: Along it [kg].
        touches: Whether contact is felt.
        exerted: Of the last cycle [N].

    Thread: control.
    """

    TURN_SPEED = 2.0
    """With which the direction follows one that is asked for [rad/s]."""
    MUCH = 0.5
    """Turn from which contact is looked for anew along the new direction [rad]."""
    LOST = 0.1
    """Share of the force that is aimed at, and of ``contact_force``, below which contact counts
    as lost."""

    def __init__(self, name: str, period: float, gains: ForceGains) -> None:
        self.name, self._period = name, period
        self.force = ForceController(gains, period)
        self.asked, self.direction, self._wanted = np.zeros(6), np.zeros(6), np.zeros(6)
        self._contact_point, self._change = np.zeros(3), np.zeros(6)
        self.reset()

    def reset(self) -> None:
        """Forget what was asked for."""
        for array in (self.asked, self.direction, self._wanted):
            array[:] = 0.0
        self.size, self.mass = 0.0, 1.0
        self.felt = self.speed = 0.0
        self.rest()

    def rest(self) -> None:
        """Exert nothing, and look for contact anew when asked."""
        self.force.reset()
        self.exerted = self._filtered = self._quick = self._old_speed = 0.0
        self.touches, self._is_new = False, True

    def ask(self, wrench: Vector) -> bool:
        """Take a wrench that it is to exert, (6,); return whether it has to touch first."""
        size = math.sqrt(float(_dot(wrench, wrench)))
        is_new = size > 0.0 and self.size == 0.0
        self.asked[:], self.size = wrench, size
        if size > 0.0:
            _multiply(wrench, 1.0 / size, self._wanted)
        return is_new

    @property
    def is_turned_much(self) -> bool:
        """Whether its direction is to be another one than it is; at first it has none."""
        return float(_dot(self.direction, self._wanted)) < math.cos(self.MUCH)

    def begin(self) -> None:
        """Take the direction that is asked for at once."""
        self.direction[:] = self._wanted
        self.rest()

    def follow(self) -> None:
        """Turn towards the direction that is asked for."""
        u = self.direction
        change = _subtract(self._wanted, u, self._change)
        angle = math.sqrt(float(_dot(change, change)))
        if angle == 0.0:
            return
        most = self.TURN_SPEED * self._period
        if angle <= most:
            u[:] = self._wanted
            return
        u += (most / angle) * change
        u /= math.sqrt(float(_dot(u, u)))

    def feel(self, state: ArmState) -> None:
        """Measure force, speed and mass along the direction, and whether there is contact."""
        u, gains = self.direction, self.force.gains
        self.felt = -float(_dot(u, state.wrench_ext_in_base))
        self.speed = float(_dot(u, state.twist_ee_in_base))
        inertia_inv = state.operational_space().inertia_inv
        self.mass = 1.0 / max(float(_dot(u, _dot(inertia_inv, u))), LEAST_MOBILITY)
        if self._is_new:
            self._is_new = False
            self._filtered = self._quick = self.felt
            self._contact_point[:] = state.position_ee_in_base
        follow = self._period / (gains.filter_time + self._period)
        self._filtered += follow * (self.felt - self._filtered)
        quick = self._period / (ForceController.QUICK_TIME + self._period)
        self._quick += quick * (self.felt - self._quick)
        if not self.touches:
            self.touches = self.size > 0.0 and self._filtered > gains.contact_force
        else:
            aim = self.force.error + self.force.measured
            least = self.LOST * max(gains.contact_force, aim)
            runs_away = self._old_speed > ForceController.RUNAWAY and self._quick < least
            self.touches = self._filtered > least and not runs_away

    def press(self, state: ArmState, size: float, felt: float, speed: float) -> None:
        """Control the force for one cycle.

        Args:
            state: The arm.
            size: Of the force that is to be exerted [N].
            felt: Force that the controller is to take for measured [N].
            speed: Likewise [m/s].
        """
        force = self.force
        work = 0.5 * (speed + self._old_speed) * self.exerted * self._period
        force.tank.settle(work)
        self._old_speed = speed
        force.grant(size)
        if self.touches:
            self._contact_point[:] = state.position_ee_in_base
            distance = 0.0
        else:
            away = _subtract(state.position_ee_in_base, self._contact_point)
            distance = abs(float(_dot(self.direction[:3], away)))
        self.exerted = force.step(size, felt, distance, speed, self.mass)
