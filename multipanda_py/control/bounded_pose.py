# SPDX-License-Identifier: Apache-2.0
"""A reference pose that moves with bounded speed, and not far ahead of its tool."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_log3, _exp3 = pin.log3, pin.exp3


class BoundedPose:
    r"""Follow a desired pose within bounds of speed, tied to the measured pose by a tether.

    In a cycle of length T the position moves by :math:`p_d - p_r` shortened to at most
    :math:`v_{max} T`, and the orientation by :math:`\log(R_d R_r^T)^\vee` shortened to at most
    :math:`\omega_{max} T`. Then both are brought within the tether of what is measured: a tool
    that is held back builds up no more error than that.

    Attributes:
        position: Reference position in the base, (3,) [m].
        rotation: Reference orientation, (3, 3).
        distance: From the measured position, after the tether [m].
        angle: From the measured orientation, after the tether [rad].

    Thread: control.
    """

    def __init__(self) -> None:
        self.position, self.rotation = np.zeros(3), np.eye(3)
        self.distance = self.angle = 0.0
        self._step, self._turned = np.zeros(3), np.zeros((3, 3))
        self.set_bounds(math.inf, math.inf, math.inf, math.inf)

    def set_bounds(self, speed: float, turn: float, distance: float, angle: float) -> None:
        """Set the largest speed [m/s], turn [rad/s], and the tether [m], [rad]."""
        self._speed, self._turn_speed = speed, turn
        self._tether, self._turn_tether = distance, angle

    def start(self, state: ArmState) -> None:
        """Begin at the measured pose."""
        self.position[:] = state.position_ee_in_base
        self.rotation[:] = state.rotation_ee_in_base

    def displace(self, error: Vector) -> None:
        """Move at once by an error (6,) [m, rad] along and about the axes of the base."""
        _add(self.position, error[:3], self.position)
        self.rotation[:] = _dot(_exp3(error[3:]), self.rotation)

    def advance(self, position: Vector, rotation: Matrix, period: float) -> None:
        """Move towards a pose for one period."""
        step = _subtract(position, self.position, self._step)
        length, most = math.sqrt(_dot(step, step)), self._speed * period
        if length > most:
            _multiply(step, most / length, step)
            _add(self.position, step, self.position)
        else:
            self.position[:] = position
        turn = _log3(_dot(rotation, self.rotation.T, self._turned))
        angle, most = math.sqrt(_dot(turn, turn)), self._turn_speed * period
        if angle > most:
            self.rotation[:] = _dot(_exp3(turn * (most / angle)), self.rotation)
        else:
            self.rotation[:] = rotation

    def tie(self, state: ArmState) -> None:
        """Stay within the tether of the measured pose."""
        ahead = _subtract(self.position, state.position_ee_in_base, self._step)
        self.distance = math.sqrt(_dot(ahead, ahead))
        if self.distance > self._tether:
            _multiply(ahead, self._tether / self.distance, ahead)
            _add(state.position_ee_in_base, ahead, self.position)
            self.distance = self._tether
        measured = state.rotation_ee_in_base
        turn = _log3(_dot(self.rotation, measured.T, self._turned))
        self.angle = math.sqrt(_dot(turn, turn))
        if self.angle > self._turn_tether:
            self.rotation[:] = _dot(_exp3(turn * (self._turn_tether / self.angle)), measured)
            self.angle = self._turn_tether

    def limit(self, twist: Vector) -> None:
        """Bound a twist (6,) by the speeds, and fade it out where the tether gets tight."""
        for part, most, used in (
            (twist[:3], self._speed, self.distance / self._tether),
            (twist[3:], self._turn_speed, self.angle / self._turn_tether),
        ):
            size = math.sqrt(_dot(part, part))
            _multiply(part, (1.0 - used * used) * min(1.0, most / max(size, 1e-12)), part)
