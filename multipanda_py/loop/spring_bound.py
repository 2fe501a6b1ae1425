# SPDX-License-Identifier: Apache-2.0
"""What an arm may be asked for beside its weight, where springs exert both."""

from __future__ import annotations

import numpy as np

from multipanda_py.dynamics.gravity import ArmGravity
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

PATIENCE = 0.1
"""For so long torques are beyond springs before that is said: not in every jerk [s]."""
FORGETS = 1.0
"""So long within them, and it is said again [s]."""
_BEYOND = 1e-9
_absolute, _subtract, _minimum, _maximum = np.absolute, np.subtract, np.minimum, np.maximum


class SpringBound:
    r"""Keep what an arm on springs is asked for within what they can exert.

    .. math:: -\tau_{whole} - g(q) \le \tau \le \tau_{whole} - g(q)

    So what counts as commanded, and what a law is told of it, is what the springs are asked for,
    and nothing winds up beyond that. Where the weight alone is more than they can exert, they
    exert what they can, and the arm sinks.

    Args:
        arm: The arm, which compensates gravity by its springs.
        state: Its live state, whose ``weight`` this fills.
        period: Cycle time [s].

    Attributes:
        gravity: Computes what carries it.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, state: ArmState, period: float) -> None:
        state.weight = np.zeros(arm.n_joints)
        self.gravity = ArmGravity(arm, state, period, state.weight)
        self._state, self._whole = state, state.limits.whole_torque
        self._bound, self._asked = np.zeros((2, arm.n_joints))
        self._patience, self._forgets = round(PATIENCE / period), round(FORGETS / period)
        self._beyond = self._within = 0
        self._is_said = False

    def apply(self, tau: Vector) -> None:
        """Bound torques in place, (n,) [Nm]."""
        self.gravity.update()
        self._asked[:] = tau
        bound, weight = self._bound, self._state.weight
        _minimum(tau, _subtract(self._whole, weight, bound), out=tau)
        _maximum(tau, _subtract(-self._whole, weight, bound), out=tau)
        _absolute(_subtract(self._asked, tau, bound), bound)
        if max(bound.tolist()) > _BEYOND:
            self._beyond, self._within = self._beyond + 1, 0
        else:
            self._beyond, self._within = 0, self._within + 1
            self._is_said &= self._within < self._forgets

    def news(self) -> str:
        """Return what is to be said now, once; mostly nothing."""
        if self._is_said or self._beyond < self._patience:
            return ""
        self._is_said = True
        joint, state = int(self._bound.argmax()), self._state
        weight = state.weight[joint]
        return (
            f"springs of joint {joint + 1} can exert {self._whole[joint]:.3g} Nm, got "
            f"{abs(self._asked[joint] + weight):.3g} Nm with {abs(weight):.3g} Nm of the arm's "
            "weight: it gets what they can"
        )
