# SPDX-License-Identifier: Apache-2.0
"""Whether joints that move can come to rest before their position limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.state import Vector


def can_stop(
    q: Vector, dq: Vector, ddq: Vector, lower: Vector, upper: Vector, most: Vector, jerk: Vector
) -> NDArray[np.bool_]:
    r"""Return which joints have room to brake, (n,).

    An upper bound of the room: the acceleration is brought to zero, then braking builds up and
    ends. With :math:`v = |\dot q| + \ddot q^2 / 2j`,

    .. math:: d = v \left( \frac{|\ddot q|}{j} + \frac{v}{2 a} + \frac{a}{2 j} \right)

    Args:
        q: Positions, (n,) [rad].
        dq: Velocities, (n,) [rad/s].
        ddq: Accelerations, (n,) [rad/s^2].
        lower: Smallest positions, (n,) [rad].
        upper: Largest positions, (n,) [rad].
        most: Accelerations to brake with, a, (n,) [rad/s^2].
        jerk: To brake with, j, (n,) [rad/s^3].
    """
    change = np.abs(ddq)
    rate = np.abs(dq) + change * change / (2.0 * jerk)
    room = rate * (change / jerk + rate / (2.0 * most) + most / (2.0 * jerk))
    up, down = upper - q, q - lower
    ahead = np.where(dq > 0.0, up, down)
    turns = (dq * ddq < 0.0) | (dq == 0.0)
    ahead = np.where(turns, np.minimum(up, down), ahead)
    return np.asarray((room <= ahead) | (rate < 1e-6))


def stoppable_rate(room: Vector, most: Vector, period: float) -> Vector:
    r"""Return the largest velocities from which joints can stop in time, (n,) [rad/s].

    .. math:: v(d) = a \left( \sqrt{T^2 + 2 d / a} - T \right)

    With it one more cycle, and then braking with a, need no more than d.

    Args:
        room: To where they are to stop, d, (n,) [rad]; below zero counts as none.
        most: Accelerations to brake with, a, (n,) [rad/s^2].
        period: Cycle time, T [s].
    """
    reach = np.sqrt(period * period + 2.0 * np.maximum(room, 0.0) / most)
    return np.asarray(most * (reach - period))
