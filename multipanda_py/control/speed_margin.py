# SPDX-License-Identifier: Apache-2.0
"""What a spring and its damper do where joints come near their speed limits."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.control.modal_damping import LEAST_RATIO
from multipanda_py.limits import ArmLimits
from multipanda_py.state import ArmState

_multiply, _absolute = np.multiply, np.absolute
_norm = math.hypot

FAST, FASTEST = 0.35, 0.65
"""Shares of a joint's speed limit between which a damper becomes critical."""
FADING = 0.72
"""Share from which a spring fades out; a governed reference asks for up to 0.7."""


class SpeedMargin:
    r"""Keep a spring from drawing joints beyond their speed limits, and leave it alone at rest.

    With the largest share :math:`u = \max_i |\dot q_i| / \dot q_{max,i}`, the spring is scaled by
    s and the damper, of the ratio :math:`\zeta`, by d:

    .. math::
        s = \mathrm{clip}\left(\frac{1 - u}{1 - 0.72}, 0, 1\right), \qquad
        d = 1 + \mathrm{clip}\left(\frac{u - 0.35}{0.65 - 0.35}, 0, 1\right)
        \left( \max\left(1, \frac{\sqrt{\kappa}}{\zeta}\right) - 1 \right)

    Close to a singular posture the joints move fast for little motion of the tool, which stays
    behind its reference and is drawn by more and more, while a damper that fits the task
    vanishes there: nothing else bounds the speed. Fading alone comes too late for the torque
    rate limit where :math:`\zeta < 1`. :math:`\kappa` is the share of the stiffness that the
    bandwidth leaves (:class:`.ModalDamping`): with it no damper brakes faster than that.
    Neither stops a torque that the model lacks; the feature ``joint_limits`` does, above 0.8.

    Args:
        limits: Of the arm.

    Attributes:
        slow: :math:`\|\dot q\|` up to which u is below 0.35 whatever joints move.

    Thread: control.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._per_speed = 1.0 / limits.velocity
        self.slow = FAST * float(limits.velocity.min())
        self._shares = np.zeros_like(limits.velocity)

    def used(self, state: ArmState) -> float:
        """Return u, or 0 where no joint can be faster than 0.35 of its limit."""
        if not _norm(*state.dq.tolist()) > self.slow:
            return 0.0
        shares = _multiply(state.dq, self._per_speed, self._shares)
        most: float = max(_absolute(shares, shares).tolist())
        return most

    @staticmethod
    def spring(used: float) -> float:
        """Return s for a u."""
        return min(1.0, max(0.0, (1.0 - used) / (1.0 - FADING)))

    @staticmethod
    def damper(used: float, ratio: float, kept: float) -> float:
        r"""Return d for a u, the largest :math:`\zeta` of all axes, and :math:`\kappa`."""
        missing = max(0.0, math.sqrt(kept) / max(ratio, LEAST_RATIO) - 1.0)
        return 1.0 + missing * min(1.0, max(0.0, (used - FAST) / (FASTEST - FAST)))
