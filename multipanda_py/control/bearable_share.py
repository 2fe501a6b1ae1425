# SPDX-License-Identifier: Apache-2.0
"""How much of a wrench an arm's joints can exert."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.torque_room import TorqueRoom
from multipanda_py.limits import MAX_TORQUE_FRACTION
from multipanda_py.report import Report
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

_multiply, _absolute = np.multiply, np.absolute
_norm = math.hypot
SURE = 5.0
"""Norm of a wrench that every joint can take, whatever its lever [N, Nm]."""
BORNE = Report("pull kept", "-", "least share of the spring's wrench that torque limits leave")
"""What laws that scale their spring down by this share call it."""


class BearableShare:
    r"""Find the share of a wrench on the tool that leaves every joint below what it may exert.

    .. math::
        s = \min\left(1, \min_i \frac{\sigma\, \tau_{room,i}}{|(J^T F)_i|} \right), \qquad
        \sigma = 0.9

    where :math:`\sigma` is :data:`.MAX_TORQUE_FRACTION`.

    A wrench beyond it would lose its direction at the clamp of the torques: an FR3 that presses
    with 140 N at 9 cm from its sixth axis asks 12.3 of 12 Nm there, that joint gives way while
    the others go on pressing, and the wrist is thrown aside within a second. What carries the
    arm is not there to press with (:class:`.TorqueRoom`).

    Args:
        arm: The arm.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._room = TorqueRoom(arm)
        self._per_torque = 1.0 / (MAX_TORQUE_FRACTION * self._room.torque)
        self._load = np.zeros(arm.n_joints)

    def of(self, wrench: Vector, state: ArmState) -> float:
        """Return s for a wrench along the axes of the base, (6,) [N, Nm]."""
        if _norm(*wrench.tolist()) <= SURE:
            return 1.0
        if self._room.shrinks:
            np.divide(1.0 / MAX_TORQUE_FRACTION, self._room.update(state), self._per_torque)
        load = wrench.dot(state.jacobian, self._load)
        _absolute(_multiply(load, self._per_torque, load), load)
        hardest: float = max(load.tolist())
        return 1.0 / max(hardest, 1.0)
