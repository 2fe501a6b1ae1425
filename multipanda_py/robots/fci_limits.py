# SPDX-License-Identifier: Apache-2.0
"""What an FR3 enforces of commanded motions, and tells its client (robot system 5.9).

Positions are a little wider than in franka_description, which the rest of the package stays
within; speeds get lower towards them.
"""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Vector

LOWER = np.array([-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196])
UPPER = np.array([2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196])
VELOCITY = np.array([2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26])
VELOCITY_OFFSET = np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35])
DECELERATION = np.array([6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0])  # [rad/s^2]


def velocity_towards(distance: Vector, deceleration: Vector = DECELERATION) -> Vector:
    r"""Return the largest speed at a distance from a position limit.

    .. math:: v = \min(v_{max}, \max(0, \sqrt{2 a d} - v_0))

    Args:
        distance: From the joint positions to the limits that they move to, (7,) [rad].
        deceleration: a, (7,) [rad/s^2].

    Returns:
        Speeds, (7,) [rad/s]. Source: FCI documentation, position-based velocity limits.
    """
    reach = np.sqrt(np.maximum(2.0 * deceleration * distance, 0.0)) - VELOCITY_OFFSET
    return np.asarray(np.clip(reach, 0.0, VELOCITY))
