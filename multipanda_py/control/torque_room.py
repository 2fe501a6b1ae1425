# SPDX-License-Identifier: Apache-2.0
"""What its own weight leaves of an arm's torque limits."""

from __future__ import annotations

import numpy as np

from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

LEAST = 0.1
"""Share of a limit that is reckoned with whatever a joint carries: a law that asked for nothing
would not even brake."""


class TorqueRoom:
    r"""Know the torques that laws may ask for beside what carries the arm.

    .. math:: \tau_{room} = \max(\min(\tau_{max}, \tau_{whole} - |g(q)|),\; 0.1\, \tau_{max})

    with :math:`\tau_{whole} = \tau_{max}` for an arm that does not compensate gravity by itself,
    and what springs can exert for one on springs; tool and load are in g. It is
    :math:`\tau_{max}` for any other.

    Args:
        arm: The arm.

    Attributes:
        torque: :math:`\tau_{room}` of the last :meth:`update`, (n,) [Nm].
        shrinks: Whether it differs from the limits: else nobody has to update it.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._limit = np.array(arm.limits.torque)
        self._least = LEAST * self._limit
        self.torque: Vector = self._limit.copy()
        self.shrinks = not arm.compensates_gravity or arm.limits.bears_weight
        self._whole = arm.limits.whole_torque if arm.compensates_gravity else self._limit

    def update(self, state: ArmState) -> Vector:
        r"""Take this cycle's weight into account; return :math:`\tau_{room}`."""
        room = np.absolute(state.weight, self.torque)
        np.minimum(np.subtract(self._whole, room, room), self._limit, out=room)
        return np.maximum(room, self._least, out=room)
