# SPDX-License-Identifier: Apache-2.0
"""Virtual mass on a spring and damper, moved by a measured wrench."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from numpy import add, dot, multiply, subtract

from multipanda_py.state import Vector

_exp3, _log3 = pin.exp3, pin.log3


class VirtualBody:
    """Virtual mass-spring-damper system that a measured wrench moves within bounds.

    Equations::

        M ddx + D dx + K x = F

    Integration in cycle k::

        v[k+1]   = (M + h D)^-1 (M v[k] + h (F[k] - K x[k]))
        x_p[k+1] = x_p[k] + h v_p[k+1]
        x_r[k+1] = log(exp(h v_r[k+1]) exp(x_r[k]))

    - x: Displacement: translation x_p [m] and rotation vector x_r [rad].
    - v: Linear velocity v_p [m/s] and angular velocity v_r [rad/s].
    - M, D, K: Diagonal mass [kg, kg m^2], damping and stiffness along fixed axes, (6,).
    - F: Measured wrench minus its tare, low-pass filtered, with a deadband, (6,) [N, Nm].
    - h: Time step [s].

    At a bound of ``set_bounds``, the displacement stops and the outward velocity becomes zero. A
    displacement above a new bound returns at maximum speed.

    A wrench c passed to ``ignore`` does not move the body. c decreases with the measured wrench
    and never grows.

    Args:
        period: Time step h [s].

    Attributes:
        displacement: Translation [m] and rotation vector [rad], (6,).
        translation: View of the translation, (3,) [m].
        rotation: View of the rotation vector, (3,) [rad].
        rotation_matrix: Rotation matrix exp(x_r), (3, 3).
        velocity: Linear [m/s] and angular velocity [rad/s], (6,).
        wrench: Wrench F that moves the body, (6,) [N, Nm].
        ignored_wrench: Wrench c that does not move the body, (6,) [N, Nm].
        ignores: True if c is not zero.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.displacement, self.velocity, self.wrench = (np.zeros(6) for _ in range(3))
        self.translation, self.rotation = self.displacement[:3], self.displacement[3:]
        self._linear, self._angular = self.velocity[:3], self.velocity[3:]
        self._force, self._torque = self.wrench[:3], self.wrench[3:]
        self.rotation_matrix = np.eye(3)
        self._filtered, self._bias, self._change, self._push = (np.zeros(6) for _ in range(4))
        self._filtered_force, self._filtered_torque = self._filtered[:3], self._filtered[3:]
        self._step, self._turned = np.zeros(3), np.zeros((3, 3))
        self._tare_left = self._tare_cycles = 0
        self._max_tare = (math.inf, math.inf)
        self.ignored_wrench, self.ignores = np.zeros(6), False

    def set_gains(self, mass: Vector, damping: Vector, stiffness: Vector) -> None:
        """Set mass, damping and stiffness of the virtual body.

        Args:
            mass: Diagonal of the mass M, (6,) [kg, kg m^2].
            damping: Diagonal of the damping D, (6,) [N s/m, Nm s/rad].
            stiffness: Diagonal of the stiffness K, (6,) [N/m, Nm/rad].
        """
        h = self._period
        self._mass, self._stiffness = np.array(mass), np.array(stiffness)
        self._solve = 1.0 / (mass + h * damping)

    def set_bounds(self, displacement: tuple[float, float], speed: tuple[float, float]) -> None:
        """Set the bounds of the motion.

        Args:
            displacement: Maximum translation [m] and rotation [rad].
            speed: Maximum linear [m/s] and angular speed [rad/s].
        """
        self._max_displacement, self._max_speed = displacement, speed

    def set_filter(self, time: float, deadband: tuple[float, float]) -> None:
        """Set filter and deadband of the measured wrench.

        Args:
            time: Time constant of the low-pass filter [s]; 0 disables it.
            deadband: Deadbands of force [N] and torque [Nm].
        """
        self._weight = 1.0 - math.exp(-self._period / time) if time > 0.0 else 1.0
        self._deadband = deadband

    def reset(
        self, tare_time: float, max_tare: tuple[float, float] = (math.inf, math.inf)
    ) -> None:
        """Reset the body to zero displacement and velocity, and start a tare.

        The body rests until the measured wrench has been averaged.

        Args:
            tare_time: Averaging time [s]; 0 means no tare.
            max_tare: Maximum norms of force [N] and torque [Nm] of the tare.
        """
        for array in (self.displacement, self.velocity, self.wrench, self._filtered, self._bias):
            array[:] = 0.0
        self.rotation_matrix = np.eye(3)
        self._tare_left = self._tare_cycles = round(tare_time / self._period)
        self._max_tare = max_tare
        self.ignored_wrench[:], self.ignores = 0.0, False

    def ignore(self, wrench: Vector) -> None:
        """Ignore a wrench (6,) [N, Nm] that already acts on the arm, until it disappears."""
        self.ignored_wrench[:] = self._filtered[:] = wrench
        self.ignores = bool(np.any(wrench))

    def step(self, measured: Vector) -> None:
        """Move the body for one cycle under a measured wrench, (6,) [N, Nm]."""
        change, filtered = self._change, self._filtered
        if self._tare_left:
            self._tare_left -= 1
            self._bias += (measured - self.ignored_wrench) / self._tare_cycles
            if not self._tare_left:
                limit(self._bias[:3], self._max_tare[0])
                limit(self._bias[3:], self._max_tare[1])
            if not self.ignores:
                return
            subtract(measured, filtered, change)
        else:
            subtract(subtract(measured, self._bias, change), filtered, change)
        add(filtered, multiply(change, self._weight, change), filtered)
        force, torque = self._filtered_force, self._filtered_torque
        if self.ignores:
            self._reduce_ignored(force, self.ignored_wrench[:3], self._deadband[0])
            self._reduce_ignored(torque, self.ignored_wrench[3:], self._deadband[1])
            self.ignores = bool(np.any(self.ignored_wrench))
            if self._tare_left:
                return
            subtract(filtered, self.ignored_wrench, change)
            force, torque = change[:3], change[3:]
        multiply(force, remaining(force, self._deadband[0]), self._force)
        multiply(torque, remaining(torque, self._deadband[1]), self._torque)
        self._integrate()

    @staticmethod
    def _reduce_ignored(measured: Vector, ignored: Vector, margin: float) -> None:
        # Replace ``ignored`` by its nearest point in a ball. One diameter of the ball reaches from
        # zero to the measured vector, lengthened by the margin.
        size = length(measured)
        if size <= margin:
            ignored[:] = 0.0
            return
        centre = (0.5 * (1.0 + margin / size)) * measured
        away = ignored - centre
        radius, distance = 0.5 * (size + margin), length(away)
        if distance > radius:
            ignored[:] = centre + away * (radius / distance)

    def _integrate(self) -> None:
        h, push, velocity = self._period, self._push, self.velocity
        multiply(self._stiffness, self.displacement, push)
        multiply(subtract(self.wrench, push, push), h, push)
        multiply(self._mass, velocity, velocity)
        multiply(add(velocity, push, velocity), self._solve, velocity)
        limit(self._linear, self._max_speed[0])
        limit(self._angular, self._max_speed[1])
        step = self._step
        add(self.translation, multiply(self._linear, h, step), step)
        self._displace_within_bound(step, self._linear, self.translation, 0)
        multiply(self._angular, h, step)
        new = _log3(dot(_exp3(step), self.rotation_matrix, self._turned))
        self._displace_within_bound(new, self._angular, self.rotation, 1)
        self.rotation_matrix = _exp3(self.rotation)

    def _displace_within_bound(
        self, new: Vector, velocity: Vector, displacement: Vector, part: int
    ) -> None:
        size, bound = length(new), self._max_displacement[part]
        if size > bound:
            bound = max(bound, length(displacement) - self._period * self._max_speed[part])
        if size > bound:
            outward = float(dot(new, velocity)) / size
            if outward > 0.0:
                velocity -= (outward / size) * new
            new *= bound / size
        displacement[:] = new


def length(vector: Vector) -> float:
    return math.sqrt(dot(vector, vector))


def limit(vector: Vector, max_length: float) -> None:
    """Scale a vector in place so that its length does not exceed ``max_length``."""
    size = length(vector)
    if size > max_length:
        vector *= max_length / size


def remaining(vector: Vector, deadband: float) -> float:
    """Return the factor by which a smooth deadband scales a vector.

    Length of the scaled vector for a vector of length s and a deadband d::

        0                     if s <= d/2
        (s - d/2)^2 / (2 d)   if d/2 < s < 3d/2
        s - d                 if s >= 3d/2

    Args:
        vector: Vector of length s.
        deadband: Deadband d, in the unit of the vector.
    """
    if deadband <= 0.0:
        return 1.0
    size = length(vector)
    if size <= 0.5 * deadband:
        return 0.0
    if size >= 1.5 * deadband:
        return 1.0 - deadband / size
    return (size - 0.5 * deadband) ** 2 / (2.0 * deadband * size)
