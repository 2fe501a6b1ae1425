# SPDX-License-Identifier: Apache-2.0
"""Motions of a device become motions of a target, as far as a clutch is closed."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

MOST_STEP = (0.15, 0.8)
"""Further apart two poses of a device in a row are a jump [m, rad]."""
MOST_TURN = 3.0
"""Turns from where the clutch was closed, which are scaled, are known up to half a turn [rad]."""


class Clutch:
    r"""Where a target is to be, from where a device is or how fast it asks to go.

    While it is closed, and with the axes :math:`A` of the device's frame in the target's, a
    device at :math:`(p, R)` that was at :math:`(p_0, R_0)` when the clutch was closed takes the
    target from :math:`(x_0, Q_0)` to

    .. math::
        x = x_0 + s A (p - p_0), \qquad Q = \exp(r \, A \log(R R_0^T)) \, Q_0

    and a twist :math:`(v, \omega)` moves it within :math:`\delta` by

    .. math:: x \leftarrow x + s A v \delta, \qquad Q \leftarrow \exp(r A \omega \delta) \, Q

    While it is open nothing moves the target, so that the hand may go back.

    Args:
        scale: s, metres of the target per metre of the device.
        turn_scale: r, likewise of turns.

    Attributes:
        target: Where the target is, or None before the clutch was ever closed.
        is_closed: Whether it is.
    """

    def __init__(self, scale: float = 1.0, turn_scale: float = 1.0) -> None:
        self.scale, self.turn_scale = scale, turn_scale
        self.target: Pose | None = None
        self.is_closed = False
        self._target_then = Pose.identity()
        self._device_then: Pose | None = None
        self._device = Pose.identity()
        self._axes: Matrix = np.eye(3)

    @property
    def axes(self) -> Matrix:
        """A: axes of the device's frame in the target's since the clutch was closed, (3, 3)."""
        return self._axes

    def close(self, target: Pose) -> None:
        """Begin to move a target from where it is."""
        self.target = self._target_then = target
        self._device_then, self.is_closed = None, True

    def open(self) -> None:
        """Leave the target where it is."""
        self.is_closed = False

    def follow(self, device: Pose, axes: Matrix) -> Pose:
        """Return where the target is to be; the first pose of the device moves nothing.

        Args:
            device: Its pose.
            axes: Those of its frame in the target's, (3, 3); they stay those of the first pose.

        Raises:
            TargetRejected: If the device has jumped, or was turned too far for a scaled turn.
        """
        then = self._device_then
        if then is None:
            then = self._device_then = self._device = device
            self._axes = axes
        step, turn = device.distance(self._device)
        if step > MOST_STEP[0] or turn > MOST_STEP[1]:
            raise TargetRejected(
                f"the device has jumped by {step:.2f} m and {turn:.2f} rad, allowed "
                f"{MOST_STEP[0]:g} m and {MOST_STEP[1]:g} rad between two readings"
            )
        turned = pin.log3(device.rotation @ then.rotation.T)
        if self.turn_scale != 1.0 and np.linalg.norm(turned) > MOST_TURN:
            raise TargetRejected(
                f"the device has turned by {np.linalg.norm(turned):.2f} rad since the clutch was "
                f"closed, allowed {MOST_TURN:g} rad with a scale of turns other than 1"
            )
        self._device = device
        self.target = _moved(
            self._target_then,
            self.scale * self._axes @ (device.position - then.position),
            self.turn_scale * self._axes @ turned,
        )
        return self.target

    def move(self, twist: Vector, seconds: float, axes: Matrix) -> Pose:
        """Return where the target is after a time at a twist, (6,) [m/s, rad/s].

        Args:
            twist: Along axes of a frame, about the target's own origin.
            seconds: How long [s].
            axes: Of that frame in the target's, (3, 3).

        Raises:
            TargetRejected: If the clutch was never closed.
        """
        if self.target is None:
            raise TargetRejected("a target is moved before its clutch was ever closed")
        step = axes @ twist.reshape(2, 3).T * seconds
        self.target = _moved(self.target, self.scale * step[:, 0], self.turn_scale * step[:, 1])
        return self.target

    def keep(self, target: Pose) -> None:
        """Have twists go on from another target: one that does not run ahead of its arm."""
        self.target = target


def _moved(pose: Pose, step: Vector, turn: Vector) -> Pose:
    # Composed as poses are, so that it stays a rotation however long it goes on.
    rotation = Pose(np.zeros(3), pin.exp3(turn)) @ Pose(np.zeros(3), pose.rotation)
    return Pose(pose.position + step, rotation.rotation)
