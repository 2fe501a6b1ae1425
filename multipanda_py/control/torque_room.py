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

    .. math:: \tau_{room} = \max(\tau_{max} - |g(q)|,\; 0.1\, \tau_{max})

    for an arm that does not compensate gravity by itself, with its tool and its load in g;
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
        self.shrinks = not arm.compensates_gravity

    def update(self, state: ArmState) -> Vector:
        r"""Take this cycle's gravity into account; return :math:`\tau_{room}`."""
        room = np.absolute(state.tau_gravity, self.torque)
        np.subtract(self._limit, room, room)
        return np.maximum(room, self._least, out=room)
