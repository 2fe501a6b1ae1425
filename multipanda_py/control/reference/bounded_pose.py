# SPDX-License-Identifier: Apache-2.0
"""Reference pose with limited speed and limited distance from the tool."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from numpy import add, dot, multiply, subtract

from multipanda_py.state import ArmState, Matrix, Vector

_log3, _exp3 = pin.log3, pin.exp3


class BoundedPose:
    """Reference pose with bounded speed and bounded distance from the measured pose.

    Equations per cycle::

        p_r <- p_r + shorten(p_d - p_r, v_max T)
        R_r <- exp(shorten(log(R_d R_r^T), omega_max T)) R_r

    - p_r, R_r: Reference position [m] and rotation.
    - p_d, R_d: Desired position [m] and rotation.
    - v_max, omega_max: Maximum speeds [m/s], [rad/s].
    - T: Cycle time [s].
    - shorten(x, l): x scaled to a maximum norm l.

    ``tie`` then limits distance and angle of the reference from the measured pose.

    Attributes:
        position: Reference position in the base, (3,) [m].
        rotation: Reference rotation in the base, (3, 3).
        distance: Distance from the measured position after the last ``tie`` [m].
        angle: Angle from the measured rotation after the last ``tie`` [rad].

    Thread: control.
    """

    def __init__(self) -> None:
        self.position, self.rotation = np.zeros(3), np.eye(3)
        self.distance = self.angle = 0.0
        self._step, self._turned = np.zeros(3), np.zeros((3, 3))
        self.set_bounds(math.inf, math.inf, math.inf, math.inf)

    def set_bounds(
        self, speed: float, angular_speed: float, distance: float, angle: float
    ) -> None:
        """Set the maximum speeds, and the maximum distance and angle from the measured pose.

        Args:
            speed: Maximum speed [m/s].
            angular_speed: Maximum angular speed [rad/s].
            distance: Maximum distance from the measured position [m].
            angle: Maximum angle from the measured rotation [rad].
        """
        self._speed, self._angular_speed = speed, angular_speed
        self._tether, self._rotation_tether = distance, angle

    def start(self, state: ArmState) -> None:
        """Set the reference to the measured pose."""
        self.position[:] = state.position_ee_in_base
        self.rotation[:] = state.rotation_ee_in_base

    def displace(self, error: Vector) -> None:
        """Move the reference by a translation and rotation vector in the base, (6,) [m, rad]."""
        add(self.position, error[:3], self.position)
        self.rotation[:] = dot(_exp3(error[3:]), self.rotation)

    def advance(self, position: Vector, rotation: Matrix, period: float) -> None:
        """Move the reference towards a pose for one cycle.

        Args:
            position: Goal position, (3,) [m].
            rotation: Goal rotation, (3, 3).
            period: Cycle time [s].
        """
        step = subtract(position, self.position, self._step)
        length, max_value = math.sqrt(dot(step, step)), self._speed * period
        if length > max_value:
            multiply(step, max_value / length, step)
            add(self.position, step, self.position)
        else:
            self.position[:] = position
        rotation_angle = _log3(dot(rotation, self.rotation.T, self._turned))
        angle, max_value = (
            math.sqrt(dot(rotation_angle, rotation_angle)),
            self._angular_speed * period,
        )
        if angle > max_value:
            self.rotation[:] = dot(_exp3(rotation_angle * (max_value / angle)), self.rotation)
        else:
            self.rotation[:] = rotation

    def tie(self, state: ArmState) -> None:
        """Limit distance and angle of the reference from the measured pose to their maxima."""
        ahead = subtract(self.position, state.position_ee_in_base, self._step)
        self.distance = math.sqrt(dot(ahead, ahead))
        if self.distance > self._tether:
            multiply(ahead, self._tether / self.distance, ahead)
            add(state.position_ee_in_base, ahead, self.position)
            self.distance = self._tether
        measured = state.rotation_ee_in_base
        rotation_vector = _log3(dot(self.rotation, measured.T, self._turned))
        self.angle = math.sqrt(dot(rotation_vector, rotation_vector))
        if self.angle > self._rotation_tether:
            self.rotation[:] = dot(
                _exp3(rotation_vector * (self._rotation_tether / self.angle)), measured
            )
            self.angle = self._rotation_tether

    def limit(self, twist: Vector) -> None:
        """Limit a reference twist (6,) in place to the maximum speeds.

        The linear part decreases to zero at the maximum distance from the measured pose, and the
        angular part at the maximum angle.
        """
        for part, max_value, used in (
            (twist[:3], self._speed, self.distance / self._tether),
            (twist[3:], self._angular_speed, self.angle / self._rotation_tether),
        ):
            size = math.sqrt(dot(part, part))
            multiply(part, (1.0 - used * used) * min(1.0, max_value / max(size, 1e-12)), part)
