# SPDX-License-Identifier: Apache-2.0
"""Contact detection and force control of one end effector."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import dot, multiply, subtract

from multipanda_py.control.force.force_control import ForceController, ForceGains
from multipanda_py.control.force.force_impedance import MIN_MOBILITY
from multipanda_py.state import ArmState, Vector

MIN_CONTACT_FORCE = 0.5
"""Desired force below which no contact is detected [N]."""
CONTACT_START_FRACTION, CONTACT_END_FRACTION = 0.5, 0.2
"""Fractions of the desired force above which contact begins and below which it ends."""
CONTACT_END_TIME = 0.5
"""Time below the lower fraction after which contact has ended [s]."""
FORCE_FILTER_TIME = 0.01
"""Time constant of the low-pass filter on the reaction force [s]."""


class ToolContact:
    """Contact detection of a tool that is commanded to exert a force.

    Equations, with r low-pass filtered::

        r = -F_ext^T F_d / |F_d|
        contact begins if r > 0.5 |F_d|
        contact ends   if r < 0.2 |F_d| for 0.5 s

    - F_d: Desired force of the tool, (3,) [N].
    - F_ext: Estimated external force on the tool, (3,) [N].
    - r: Reaction force against the desired force [N].

    Args:
        period: Cycle time [s].

    Attributes:
        is_on: True while the tool is in contact.

    Thread: control.
    """

    __slots__ = ("_follow", "_hold", "_left", "_reaction", "is_on")

    def __init__(self, period: float) -> None:
        self._follow, self._hold = (
            period / (FORCE_FILTER_TIME + period),
            max(1, round(CONTACT_END_TIME / period)),
        )
        self.reset()

    def reset(self) -> None:
        """End the contact, and clear the filter of r."""
        self.is_on, self._left = False, 0
        self._reaction: float | None = None

    def pause(self) -> None:
        """Restart the filter of r. Call this before the first ``update`` after a pause.

        If r is then below 0.2 |F_d|, the contact ends immediately, without the delay of 0.5 s.
        """
        self._reaction, self._left = None, 1

    def update(self, requested: Sequence[float], external: Sequence[float]) -> None:
        """Update the contact state with the forces of one cycle.

        Args:
            requested: Desired force F_d of the tool, (3,) [N].
            external: External force F_ext on the tool along the same axes, (3,) [N].
        """
        (x, y, z), (fx, fy, fz) = requested, external
        size = math.sqrt(x * x + y * y + z * z)
        if size < MIN_CONTACT_FORCE:
            reaction, size = 0.0, MIN_CONTACT_FORCE
        else:
            reaction = -(x * fx + y * fy + z * fz) / size
        if self._reaction is not None:
            reaction = self._reaction + self._follow * (reaction - self._reaction)
        self._reaction = reaction
        if reaction > (CONTACT_END_FRACTION if self.is_on else CONTACT_START_FRACTION) * size:
            self.is_on, self._left = True, self._hold
        elif self.is_on:
            self._left -= 1
            self.is_on = self._left > 0


class ContactForceController:
    """Force control of one end effector along the direction of its desired wrench.

    Without contact, the end effector searches for contact as in ``ForceController``.

    Args:
        name: Name of the arm.
        period: Cycle time [s].
        gains: Gains of the force controller.

    Attributes:
        name: Name of the arm.
        force: Force controller along u.
        desired_wrench: Desired wrench on the environment, (6,) [N, Nm].
        size: Norm of the desired wrench; 0 if none is desired.
        direction: Unit direction u of the controlled force, (6,).
        measured_force: Measured force of the end effector along u [N].
        speed: Speed along u [m/s].
        mass: Effective mass along u [kg].
        touches: True while the end effector is in contact.
        exerted: Commanded force along u of the last cycle [N].

    Thread: control.
    """

    ANGULAR_SPEED = 2.0
    """Maximum speed at which the direction of the force rotates to the desired one [rad/s]."""
    MAX_DIRECTION_CHANGE = 0.5
    """Angle to the desired direction above which the search for contact starts again [rad]."""
    CONTACT_LOST_FRACTION = 0.1
    """Fraction of the larger of goal force and ``contact_force``, below which contact is lost."""

    def __init__(self, name: str, period: float, gains: ForceGains) -> None:
        self.name, self._period = name, period
        self.force = ForceController(gains, period)
        self.desired_wrench, self.direction, self._desired_direction = (
            np.zeros(6),
            np.zeros(6),
            np.zeros(6),
        )
        self._contact_point, self._change = np.zeros(3), np.zeros(6)
        self.reset()

    def reset(self) -> None:
        """Clear the desired wrench, ``direction`` and the contact."""
        for array in (self.desired_wrench, self.direction, self._desired_direction):
            array[:] = 0.0
        self.size, self.mass = 0.0, 1.0
        self.measured_force = self.speed = 0.0
        self.release()

    def release(self) -> None:
        """Set the force to zero. The next force begins with a search for contact."""
        self.force.reset()
        self.exerted = self._filtered = self._quick = self._old_speed = 0.0
        self.touches, self._is_new = False, True

    def set_desired_wrench(self, wrench: Vector) -> bool:
        """Set the desired wrench, (6,) [N, Nm]. Return True if no wrench was desired before."""
        size = math.sqrt(float(dot(wrench, wrench)))
        is_new = size > 0.0 and self.size == 0.0
        self.desired_wrench[:], self.size = wrench, size
        if size > 0.0:
            multiply(wrench, 1.0 / size, self._desired_direction)
        return is_new

    @property
    def must_reset_direction(self) -> bool:
        """True if ``direction`` is zero or over ``MAX_DIRECTION_CHANGE`` from the desired one."""
        return float(dot(self.direction, self._desired_direction)) < math.cos(
            self.MAX_DIRECTION_CHANGE
        )

    def set_direction(self) -> None:
        """Set ``direction`` to the desired one, and restart with a search for contact."""
        self.direction[:] = self._desired_direction
        self.release()

    def rotate_direction(self) -> None:
        """Rotate ``direction`` for one cycle to the desired one, at up to ``ANGULAR_SPEED``."""
        u = self.direction
        change = subtract(self._desired_direction, u, self._change)
        angle = math.sqrt(float(dot(change, change)))
        if angle == 0.0:
            return
        max_value = self.ANGULAR_SPEED * self._period
        if angle <= max_value:
            u[:] = self._desired_direction
            return
        u += (max_value / angle) * change
        u /= math.sqrt(float(dot(u, u)))

    def measure(self, state: ArmState) -> None:
        """Measure force, speed and effective mass along ``direction``, and detect contact."""
        u, gains = self.direction, self.force.gains
        self.measured_force = -float(dot(u, state.wrench_ext_in_base))
        self.speed = float(dot(u, state.twist_ee_in_base))
        inertia_inv = state.operational_space().inertia_inv
        self.mass = 1.0 / max(float(dot(u, dot(inertia_inv, u))), MIN_MOBILITY)
        if self._is_new:
            self._is_new = False
            self._filtered = self._quick = self.measured_force
            self._contact_point[:] = state.position_ee_in_base
        follow = self._period / (gains.filter_time + self._period)
        self._filtered += follow * (self.measured_force - self._filtered)
        quick = self._period / (ForceController.QUICK_TIME + self._period)
        self._quick += quick * (self.measured_force - self._quick)
        if not self.touches:
            self.touches = self.size > 0.0 and self._filtered > gains.contact_force
        else:
            aim = self.force.error + self.force.measured
            min_value = self.CONTACT_LOST_FRACTION * max(gains.contact_force, aim)
            runs_away = self._old_speed > ForceController.RUNAWAY_SPEED and self._quick < min_value
            self.touches = self._filtered > min_value and not runs_away

    def press(self, state: ArmState, size: float, measured: float, speed: float) -> None:
        """Control the force for one cycle.

        Args:
            state: State of the arm.
            size: Desired force [N].
            measured: Measured force [N], combined over all arms that press together.
            speed: Speed along the force [m/s], combined over all arms that press together.
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
            away = subtract(state.position_ee_in_base, self._contact_point)
            distance = abs(float(dot(self.direction[:3], away)))
        self.exerted = force.step(size, measured, distance, speed, self.mass)
