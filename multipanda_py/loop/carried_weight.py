# SPDX-License-Identifier: Apache-2.0
"""What of a force from before an arm lost its torque is a weight that it still has."""

from __future__ import annotations

import numpy as np

from multipanda_py.handover import Handover
from multipanda_py.state import Matrix, Vector

LOOK_BACK = 300
"""Cycles before a loss of torque at which an arm had not met yet what stopped it: reflexes come
within some tens of milliseconds."""
UNSURE = 2.0
"""What a measured force may be wrong by at rest, and what is no weight yet [N]."""


def still_carried(
    before: Handover, wrench_ext_in_base: Vector, up_in_base: Vector, jacobian: Matrix
) -> Handover:
    r"""Return how an arm whose torque was away goes on carrying what it carried before.

    .. math::
        F = s \begin{bmatrix} u u^T f \\ m \end{bmatrix}, \qquad
        s = \min\left(1, \frac{-u^T f_{ext} + \epsilon}{u^T f}\right), \qquad \tau = J^T F

    with the force f and moment m from before, the vertical u and the force :math:`f_{ext}` that
    is measured now. A weight only pulls down, was there before anything was met, and is there
    still. So what the arm has met meanwhile, which may be somebody who is clamped, is not pressed
    on, from whichever side, nor is a load that has been taken off.

    Args:
        before: What the arm pressed with before it met anything.
        wrench_ext_in_base: What the world exerts on the tool now, as measured, (6,) [N, Nm].
        up_in_base: Unit vector, (3,).
        jacobian: J, (6, n).

    Thread: control.
    """
    weight = float(np.dot(before.wrench_in_base[:3], up_in_base))
    pull = -float(np.dot(wrench_ext_in_base[:3], up_in_base))
    if not (weight > UNSURE and pull > UNSURE):
        return Handover(np.zeros(jacobian.shape[1]))
    wrench = before.wrench_in_base * min(1.0, (pull + UNSURE) / weight)
    wrench[:3] = float(np.dot(wrench[:3], up_in_base)) * up_in_base
    return Handover(np.dot(wrench, jacobian), wrench)
