# SPDX-License-Identifier: Apache-2.0
"""Where a force is controlled, a spring has no say."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from multipanda_py.control.pose_error import PoseError
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_exp3 = pin.exp3


class ForceSubspace:
    r"""Take a spring out along the direction of a controlled force, without a step.

    .. math::
        e' = P (e - r), \quad F = P\, K e', \quad P = I - w\, u u^T

    with the direction *u* of the wrench (unit length; a metre counts as a radian where force
    and torque are asked for together), a share *w* that goes from 0 to 1 within ``FADE`` once a
    force is asked for, and an offset *r* of the set point. When the force is withdrawn or turns,
    *r* becomes what P has hidden until then, so that the spring comes back in relaxed where the
    tool is; then *r* shrinks with bounded speed, and the spring takes the tool to its target.
    A direction that turns slowly keeps its share.

    Attributes:
        direction: *u*, (6,).
        share: *w*.
        is_idle: Nothing is hidden from the spring.

    Thread: control.
    """

    FADE = 0.1
    """Time in which the spring fades out along a new direction [s]."""
    TURN = 0.2
    """Turn of the direction at which the spring comes back in at once [rad]."""
    TURN_SPEED = 10.0
    """Speed in rad/s with which the offset shrinks for one in m/s."""

    def __init__(self, period: float) -> None:
        self._period = period
        self.direction = np.zeros(6)
        self._error, self._hidden, self._offset = PoseError(), np.zeros(6), np.zeros(6)
        self._part, self._seen = np.zeros(6), np.zeros(6)
        self._rotation = np.zeros((3, 3))
        self._position = np.zeros(3)
        self.reset()

    def reset(self) -> None:
        """Hide nothing."""
        self.share = 0.0
        self.is_idle, self._is_wanted = True, False
        self.direction[:] = self._offset[:] = self._hidden[:] = self._seen[:] = 0.0
        self._note()

    def aim(self, direction: Vector) -> None:
        """Control a force along a direction (6,) from now on."""
        turn = _subtract(direction, self.direction, self._part)
        angle = math.sqrt(_dot(turn, turn))
        if angle > 1e-9:
            old = self.direction
            shown = float(_dot(old, self._seen)) * float(_dot(old, direction))
            self.share = share = self.share * max(0.0, 1.0 - angle / self.TURN)
            # P is about to take this share of what the spring has been left with so far.
            shown *= share / (1.0 - share) if share < 1.0 else 0.0
            _subtract(self._hidden, _multiply(direction, shown, self._part), self._offset)
            old[:] = direction
            self._note()
        self.is_idle, self._is_wanted = False, True

    def release(self) -> None:
        """Let the spring come back in."""
        self._offset[:] = self._hidden
        self.share, self._is_wanted = 0.0, False
        self._note()

    def target(
        self, state: ArmState, position: Vector, rotation: Matrix, speed: float
    ) -> tuple[Vector, Matrix]:
        """Return the pose that the spring is to go to, (3,) [m] and (3, 3), in the base.

        Args:
            state: The arm.
            position: What was asked for, (3,) [m].
            rotation: (3, 3).
            speed: With which the spring comes back to it [m/s].
        """
        if self._is_wanted and self.share < 1.0:
            self.share = min(1.0, self.share + self._period / self.FADE)
        if self._has_offset or not self._is_wanted:
            self._shrink(speed * self._period)
        if not self._turns:
            return self._shift(state.position_ee_in_base, position), rotation
        u = self.direction
        error = self._error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base, position, rotation
        )
        left = _subtract(error, self._offset, self._seen)
        along = _multiply(u, self.share * float(_dot(u, left)), self._hidden)
        _subtract(left, along, left)
        _subtract(error, left, self._hidden)
        _add(state.position_ee_in_base, left[:3], self._position)
        _dot(_exp3(left[3:]), state.rotation_ee_in_base, self._rotation)
        return self._position, self._rotation

    def _shift(self, here: Vector, position: Vector) -> Vector:
        """Return where the spring is to go, (3,) [m], if only a force is controlled.

        In plain numbers, as three of them are not worth an array.
        """
        (x, y, z), (px, py, pz) = here.tolist(), position.tolist()
        ux, uy, uz, *_ = self._u
        rx, ry, rz, *_ = self._offset.tolist()
        ex, ey, ez = px - x - rx, py - y - ry, pz - z - rz
        along = self.share * (ux * ex + uy * ey + uz * ez)
        hx, hy, hz = along * ux, along * uy, along * uz
        self._hidden[:3] = hx + rx, hy + ry, hz + rz
        self._seen[:3] = ex - hx, ey - hy, ez - hz
        return _subtract(position, self._hidden[:3], self._position)

    def relieve(self, wrench: Vector, turn: Matrix | None) -> None:
        """Take the controlled direction out of a spring's wrench (6,), in place.

        Args:
            wrench: Along the axes of the gains [N, Nm].
            turn: Rotation from those axes to the base, (6, 6), or None if equal.
        """
        if self.share == 0.0:
            return
        u = self.direction if turn is None else _dot(self.direction, turn)
        _subtract(wrench, _multiply(u, self.share * float(u.dot(wrench)), self._part), wrench)

    def _shrink(self, step: float) -> None:
        """Shrink the offset by at most ``step`` [m], and ten times that in rad."""
        offset, left = self._offset, 0.0
        for part, most in ((offset[:3], step), (offset[3:], self.TURN_SPEED * step)):
            length = math.sqrt(_dot(part, part))
            if length > 0.0:
                left = max(left, length)
                _multiply(part, max(0.0, 1.0 - most / length), part)
        self._note()
        self.is_idle = not left and not self._is_wanted

    def _note(self) -> None:
        """Note what the present direction and offset call for."""
        self._u = self.direction.tolist()
        offset = self._offset.tolist()
        self._has_offset = any(offset)
        self._turns = any(offset[3:]) or any(self._u[3:])
