# SPDX-License-Identifier: Apache-2.0
"""How much of a spring's approach an arm can move at, and stop from."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.speed_margin import SpeedMargin
from multipanda_py.control.torque_room import TorqueRoom
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

_dot, _multiply, _abs, _maximum = np.dot, np.multiply, np.abs, np.maximum

MAX_BRAKING_SPEED_FRACTION = 0.6
"""Share of a joint's speed limit that the spring may ask for; a posture moves joints as well."""
HARDEST = 0.6
"""Share of the limits of torque and torque rate that braking may ask for."""
SLOW = 0.03
"""Size of a twist that takes no joint to its share in any posture [m/s, rad/s]."""
GENTLE = 0.15
"""Size of an acceleration that takes no joint to its share in any posture [m/s^2, rad/s^2]."""


class StoppableSpeed:
    r"""Bound a spring that would draw its tool at :math:`v = D^{-1} K e` and brake it by as much.

    The joints move at :math:`M^{-1} J^T \Lambda_s v` and brake the tool, on its exponential way
    into the target, with :math:`J^T \Lambda_d D^{-1} K v`. Both grow with e and towards singular
    postures. With

    .. math::
        \nu_v = \min_i \frac{\sigma\, \dot q_{max,i}}{|(M^{-1} J^T \Lambda_s v)_i|}, \qquad
        \rho = \max_i \frac{|(J^T \Lambda_d D^{-1} K v)_i|}
        {\sigma \min(\tau_{room,i}, \dot\tau_{max,i} / \max_j d_j)}

    the spring is scaled by

    .. math:: \nu = \min\left(1,\; \nu_v,\; \frac{\sqrt{2 \rho - 1}}{\rho}
        \text{ where } \rho > 1\right), \qquad \sigma = 0.6

    The last is the speed from which a constant deceleration, at :math:`\rho = 1`, ends where the
    exponential way does, and meets it without a kink. A bound of the speed alone asks for all of
    the braking at once when it ends: 100 Nm within 40 ms, of which the torque rate limit makes
    a limit cycle. A velocity follows with the rate D, so its torques change within 1 / D.

    Near the speed limit of a measured joint the spring fades out as in :class:`.SpeedMargin`: what
    is not the spring's moves joints as well.

    Args:
        arm: The arm; what carries it is not there to brake with (:class:`.TorqueRoom`).
        slower: Share of :math:`\lambda^2` in :math:`\Lambda_s`, see
            :meth:`~multipanda_py.dynamics.task_inertia.TaskInertia.slowed_inertia`.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, slower: float) -> None:
        limits, self._room = arm.limits, TorqueRoom(arm)
        self._per_speed = 1.0 / (MAX_BRAKING_SPEED_FRACTION * limits.velocity)
        self._per_torque = 1.0 / (HARDEST * limits.torque)
        self._per_rate = 1.0 / (HARDEST * limits.torque_rate)
        self._per_brake, self._per_change = self._per_torque.copy(), self._per_rate
        self._slower, self._margin = slower, SpeedMargin(limits)
        self._speed, self._torque = (np.zeros_like(limits.velocity) for _ in range(2))

    def set_damping(self, fastest: float) -> None:
        """Take over the largest element of D [1/s]."""
        self._per_change = self._per_rate * fastest
        _maximum(self._per_torque, self._per_change, out=self._per_brake)

    @staticmethod
    def negligible(steepest: float) -> float:
        """Return the size of v that needs no bound for the largest element of K / D [1/s]."""
        return min(SLOW, GENTLE / max(steepest, 1e-9))

    def share(self, state: ArmState, twist: Vector, braking: Vector) -> float:
        r"""Return :math:`\nu`.

        Args:
            state: The arm.
            twist: v, along the axes of the base, (6,) [m/s, rad/s].
            braking: :math:`D^{-1} K v`, likewise, (6,) [m/s^2, rad/s^2].
        """
        space, speed, torque = state.operational_space(), self._speed, self._torque
        if self._room.shrinks:
            np.divide(1.0 / HARDEST, self._room.update(state), self._per_torque)
            _maximum(self._per_torque, self._per_change, out=self._per_brake)
        _dot(_dot(space.inertia, braking), state.jacobian, torque)
        harder: float = max(_abs(_multiply(torque, self._per_brake, torque), torque).tolist())
        _dot(space.minv_jt, _dot(space.slowed_inertia(self._slower), twist), speed)
        faster: float = max(_abs(_multiply(speed, self._per_speed, speed), speed).tolist())
        left = self._margin.spring(self._margin.used(state))
        if faster > 1.0:
            left /= faster
        return min(left, math.sqrt(2.0 * harder - 1.0) / harder) if harder > 1.0 else left
