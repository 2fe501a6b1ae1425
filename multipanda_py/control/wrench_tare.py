# SPDX-License-Identifier: Apache-2.0
"""Take what an arm at rest seems to feel for the error of its estimate."""

from __future__ import annotations

import numpy as np

from multipanda_py.control.virtual_body import limit
from multipanda_py.state import ArmState, Vector

_subtract, _add = np.subtract, np.add

STILL = 0.05
"""Speed of any joint from which an arm is not at rest; measured noise stays below [rad/s]."""


class WrenchTare:
    r"""Average a wrench while arms stand still, and take the mean off from then on.

    .. math::
        b = \mathrm{bound}\left( \tfrac1n \sum_{k=1}^{n} F_k \right), \qquad F' = F - b

    The mean is that of a wrench, not of joint torques: a forgotten load, the largest error
    there is, keeps its force along the axes of the base in every posture. What is larger than
    the bound is a contact as far as it is larger. Motion starts the average anew, and until it
    is complete nothing is felt.

    Args:
        period: Cycle time [s].

    Attributes:
        wrench: What is felt, (6,) [N, Nm].
        bias: b, (6,) [N, Nm].
        done: Whether the mean is complete.

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.wrench, self.bias, self._sum = np.zeros(6), np.zeros(6), np.zeros(6)
        self._cycles = self._left = 0
        self._bounds = (0.0, 0.0)
        self.done = True

    def start(self, time: float, max_force: float, max_torque: float) -> None:
        """Begin to average over ``time`` [s]; at most this may be an error [N], [Nm]."""
        self._cycles = self._left = round(time / self._period)
        self._bounds = (max_force, max_torque)
        self.done = self._left == 0
        for array in (self.wrench, self.bias, self._sum):
            array[:] = 0.0

    def take(self, wrench: Vector, *arms: ArmState) -> Vector:
        """Take one cycle's wrench in, (6,); return :attr:`wrench`.

        Args:
            wrench: As estimated [N, Nm].
            arms: Those that have to stand still for the mean.
        """
        if self.done:
            return _subtract(wrench, self.bias, self.wrench)
        if any(max(map(abs, arm.dq.tolist())) > STILL for arm in arms):
            self._left, self._sum[:] = self._cycles, 0.0
            return self.wrench
        _add(self._sum, wrench, self._sum)
        self._left -= 1
        if self._left == 0:
            self.done = True
            self.bias[:] = self._sum / self._cycles
            limit(self.bias[:3], self._bounds[0])
            limit(self.bias[3:], self._bounds[1])
        return self.wrench
