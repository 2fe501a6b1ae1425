# SPDX-License-Identifier: Apache-2.0
"""How much of several springs or dampers an arm that answers late can stand together."""

from __future__ import annotations

import numpy as np

from multipanda_py.robots import Robot
from multipanda_py.state import Matrix, Vector

LIGHTEST = 0.057
"""Rotor inertia that bounds of joint dampers in Nm s/rad are meant for, an FR3's last [kg m^2]."""


def damping_share(robot: Robot) -> Vector:
    """Return the share of such a bound that each joint stands, (n,): less with lighter rotors.

    They are the least that any motion of a joint weighs.
    """
    return np.minimum(1.0, robot.armature / LIGHTEST)


def share_within(gains: Vector, responses: Matrix, most: float) -> float:
    r"""Return the share of gains with which no motion exceeds a rate.

    What acts beside a law has to be slower than a law (:data:`.BANDWIDTH`), as both add up. With
    5 ms of delay, 2 ms of torque lag and half a cycle a spring takes 7.5 ms times its rate from
    the dampers: one that acts alone has to have more.

    With directions :math:`g_j` of gains :math:`c_j` and :math:`W_{jk} = g_j^T M^{-1} g_k`, no
    eigenvalue of :math:`M^{-1} \sum_j c_j g_j g_j^T` is larger than

    .. math:: \max_j \sqrt{c_j} \sum_k |W_{jk}| \sqrt{c_k}

    by Gershgorin's theorem. Source: Horn and Johnson, Matrix Analysis, section 6.1.

    Args:
        gains: c, not negative, (n,).
        responses: W, (n, n).
        most: The rate: [1/s] for dampers, [1/s^2] for springs.
    """
    root = np.sqrt(gains)
    fastest = max((root * np.dot(np.abs(responses), root)).tolist())
    return most / fastest if fastest > most else 1.0
