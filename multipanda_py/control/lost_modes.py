# SPDX-License-Identifier: Apache-2.0
"""Damping of the swing that a spring drives where the arm is about to lose a direction."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from multipanda_py.dynamics.task_inertia import TaskInertia
from multipanda_py.state import ArmState, Vector

MAX_RATE = 40.0
"""Fastest that such a motion is braked [1/s]."""
_MIN_EIGENVALUE = 1e-9


def curvature(state: ArmState, direction: Vector, wrench: Vector) -> float:
    r"""Return :math:`F^T \dot J(u)\, u`: the power that a tool curving away takes from a wrench.

    With the columns of J, :math:`v_i` and :math:`z_i`, and :math:`c_i = \sum_{j \le i} z_j u_j`,

    .. math::
        \dot J(u)\, u = \begin{bmatrix} \sum_i (2 c_i - z_i u_i) \times v_i u_i \\
        \sum_i c_i \times z_i u_i \end{bmatrix}

    Args:
        state: The arm.
        direction: Joint velocities u, (n,).
        wrench: F on the tool, along the axes of the base, (6,) [N, Nm].
    """
    columns = state.jacobian * direction
    linear, angular = columns[:3], columns[3:]
    turned = np.cumsum(angular, axis=1)
    fx, fy, fz, tx, ty, tz = wrench.tolist()
    force = np.array(((0.0, -fz, fy), (fz, 0.0, -fx), (-fy, fx, 0.0)))
    torque = np.array(((0.0, -tz, ty), (tz, 0.0, -tx), (-ty, tx, 0.0)))
    bent = linear * force.dot(2.0 * turned - angular) + angular * torque.dot(turned)
    return float(bent.sum())


class LostModes:
    r"""Brake the motions along which a spring pulls a nearly singular arm as on a pendulum.

    A tool drawn beyond its reach curves away from where it is drawn, and the wrench F of its
    spring draws it back: along :math:`u_i = M^{-1} J^T v_i / \sqrt{w_i}`, of unit kinetic
    energy, with the geometric stiffness :math:`k_i = -F^T \dot J(u_i)\, u_i`, which is no part
    of K. The damping that fits K vanishes there, as :math:`2 \sqrt{K w_i}`, and the arm swings
    for seconds. The wrench

    .. math::
        F_d = -\sum_{w_i < w_0} v_i \frac{\rho_i}{w_i} v_i^T \dot x, \qquad
        \rho_i = \left( 1 - \frac{w_i}{w_0} \right) \left( \sqrt{d_i^2 + 4 \max(k_i, 0)} - d_i
        \right), \qquad d_i = w_i v_i^T D v_i

    adds to the spring's own damping D what brakes both together critically, and nothing else:
    without such a pull there is no brake, and a tool gets where it can as fast as its spring
    draws it. It only takes energy. :math:`J M^{-1} J^T = V \mathrm{diag}(w) V^T` and
    :math:`w_0` as in :class:`~multipanda_py.dynamics.task_inertia.OperationalSpace`.

    Thread: control.
    """

    def damp(
        self, state: ArmState, wrench: Vector, damping: Callable[[Vector], float]
    ) -> Vector | None:
        """Return a damper's wrench on the tool, (6,) [N, Nm]; None where nothing is lost.

        Args:
            state: The arm.
            wrench: Of its spring, along the axes of the base, (6,) [N, Nm].
            damping: Returns how hard the spring's damper brakes along a unit twist in the base,
                (6,): the power it takes.
        """
        space = state.operational_space()
        if space.damping == 0.0:
            return None
        values, vectors = space.eigen()
        total = None
        for place, w in enumerate(values.tolist()):
            share = 1.0 - w / TaskInertia.THRESHOLD
            if share <= 0.0:
                break
            lost = vectors[:, place]
            size = max(w, _MIN_EIGENVALUE)
            direction = space.minv_jt.dot(lost) / math.sqrt(size)
            stiffness = -curvature(state, direction, wrench)
            if stiffness <= 0.0:
                continue
            own = size * damping(lost)
            rate = share * min(math.sqrt(own * own + 4.0 * stiffness) - own, MAX_RATE)
            part = lost * (-rate / size * float(lost.dot(state.twist_ee_in_base)))
            total = part if total is None else total + part
        return total
