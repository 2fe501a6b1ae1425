# SPDX-License-Identifier: Apache-2.0
"""Coulomb friction whose slip does not lift the sliding body off the surface."""

from __future__ import annotations

import math
from operator import mul
from typing import Any

import mujoco

_ELLIPTIC = int(mujoco.mjtCone.mjCONE_ELLIPTIC)
RESTING = 1e-10
"""Maximum sum of squared joint velocities of a scene without sliding."""


def step(model: mujoco.MjModel, data: mujoco.MjData, steps: int = 1) -> None:
    """Advance the physics by some time steps, as ``mj_step`` with :func:`uncouple_slip`."""
    for _ in range(steps):
        mujoco.mj_step1(model, data)
        if data.ncon:
            uncouple_slip(model, data)
        mujoco.mj_step2(model, data)


def uncouple_slip(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    r"""Remove the contribution of the slip from the normal forces of this time step.

    MuJoCo finds contact forces as the minimum of a convex function. At a contact that slides with
    the elliptic cone, its normal force is

    .. math::
        f_n \propto \| \mu \circ (a_t + b\, v_t) \| - (a_n - a_n^*), \qquad b = 2 / (d\, T_c)

    so a slip :math:`v_t` acts as an approach with :math:`\mu v_t`. A body of mass m that is
    pressed on with F and slides faster than :math:`F / (m \mu b)` is lifted off and bounces: from
    15 mm/s for 10 N, 4 kg, :math:`\mu = 0.3` and a contact time :math:`T_c` of 4 ms. Coulomb
    friction has no such coupling, so it is subtracted from the normal reference acceleration,

    .. math:: a_n^* \leftarrow a_n^* - \| \mu \circ b\, v_t \|

    which changes nothing where contacts stick. Source of the effect: Castro, Permenter and Han,
    IEEE Trans. Robotics 2022 (convex contact lets bodies glide at a distance).

    Args:
        model: Model of the scene. Pyramidal cones are left as they are.
        data: Its state after ``mj_step1``; ``mj_step2`` comes next.
    """
    velocity = data.qvel
    if velocity.dot(velocity) < RESTING or model.opt.cone != _ELLIPTIC:
        return
    contacts: Any = data.contact
    reference = data.efc_aref
    rows: list[float] = reference.tolist()  # plain floats: a fifth of the time of arrays
    each = zip(contacts.efc_address.tolist(), contacts.dim.tolist(), contacts.friction.tolist())
    for normal, size, friction in each:
        if normal >= 0:
            reference[normal] -= math.hypot(*map(mul, friction, rows[normal + 1 : normal + size]))
