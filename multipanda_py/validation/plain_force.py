# SPDX-License-Identifier: Apache-2.0
"""The manufacturer's force law, to compare others with."""

from __future__ import annotations


class PlainForce:
    r"""Control a force by feed-forward and PI, and by nothing else.

    .. math:: F = F_d + k_p (F_d - F_m) + k_i \int (F_d - F_m)\,dt

    with the force :math:`F_m` that the tool exerts, estimated from joint torques. Gains are those
    of libfranka's example ``force_control``: no contact is looked for, no energy is counted,
    nothing stops it where there is nothing to press on.

    Args:
        kp: Proportional gain [-].
        ki: Integral gain [1/s].
    """

    def __init__(self, kp: float = 1.0, ki: float = 2.0) -> None:
        self._kp, self._ki, self._sum = kp, ki, 0.0

    def force(self, asked: float, measured: float, period: float) -> float:
        """Return what to press with [N].

        Args:
            asked: Force to exert [N].
            measured: Force that is exerted [N].
            period: Since the last call [s].
        """
        error = asked - measured
        self._sum += error * period
        return asked + self._kp * error + self._ki * self._sum
