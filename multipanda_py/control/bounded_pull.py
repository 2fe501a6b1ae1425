# SPDX-License-Identifier: Apache-2.0
"""What an arm stands of the spring and damper at its tool."""

from __future__ import annotations

from multipanda_py.control.bearable_share import BearableShare
from multipanda_py.control.cartesian_spring import CartesianSpring
from multipanda_py.control.lost_modes import LostModes
from multipanda_py.control.speed_margin import FAST, SpeedMargin
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector


class BoundedPull:
    r"""Bound a spring by torque and speed limits, and damp it where a direction is lost.

    .. math::
        F = s_v s_\tau K e + d\, D (\dot x_d - \dot x) + F_d

    with :math:`s_\tau` of :class:`.BearableShare`, :math:`s_v` and *d* of :class:`.SpeedMargin`,
    and :math:`F_d` of :class:`.LostModes`.

    Args:
        arm: The arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._bearable, self._lost = BearableShare(arm), LostModes()
        self._margin = SpeedMargin(arm.limits)

    def of(self, spring: CartesianSpring, state: ArmState) -> Vector:
        """Return F of a spring measured in this cycle, whose gains are along the base, (6,)."""
        pull = spring.spring * self._bearable.of(spring.spring, state)
        lost = self._lost.damp(state, pull, spring.damping_along)
        brake, used = spring.damper, self._margin.used(state)
        if used > FAST:
            pull *= self._margin.spring(used)
            brake = brake * self._margin.damper(used, spring.ratio, spring.kept)
        wrench: Vector = pull + brake
        if lost is not None:
            wrench += lost
        return wrench
