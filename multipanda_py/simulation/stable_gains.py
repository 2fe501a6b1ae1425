# SPDX-License-Identifier: Apache-2.0
"""Gains of joint controllers that explicit steps of the simulation stay stable with."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Vector

STABLE = 0.01
"""Square of natural frequency times period of a joint: explicit steps of all joints together are
stable far beyond it."""


def stable_gains(stiffness: Vector, compliance: Vector, period: float) -> tuple[Vector, Vector]:
    r"""Return stiffness [Nm/rad] and critical damping [Nm s/rad] of joints, each (n,).

    .. math:: K \le 0.01 / (c T^2), \qquad D = 2 \sqrt{K / c}

    Args:
        stiffness: As wanted, for n joints or those of a robot with others, [Nm/rad].
        compliance: Inverse of what each joint moves, c, (n,) [1/(kg m^2)].
        period: Cycle time, T [s].
    """
    bound = STABLE / (period**2 * compliance)
    wanted = np.resize(np.asarray(stiffness, float), bound.shape)
    chosen = np.minimum(wanted, bound)
    return chosen, 2.0 * np.sqrt(chosen / compliance)
