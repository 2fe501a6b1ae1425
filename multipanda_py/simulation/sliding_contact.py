# SPDX-License-Identifier: Apache-2.0
"""Coulomb friction that neither lifts a sliding body nor lets a grasped object creep."""

from __future__ import annotations

import math
from operator import mul
from typing import Any

from multipanda_py.registry import extras_named

with extras_named():
    import mujoco


_ELLIPTIC = int(mujoco.mjtCone.mjCONE_ELLIPTIC)
RESTING = 1e-10
"""Maximum sum of squared joint velocities of a scene without sliding."""
STICKING = 5e-4
"""Maximum slip of a contact that sticks [m/s]."""


def step(model: mujoco.MjModel, data: mujoco.MjData, steps: int = 1) -> None:
    """Advance the physics by some time steps, as ``mj_step`` with :func:`correct_friction`."""
    for _ in range(steps):
        mujoco.mj_step1(model, data)
        if data.ncon:
            correct_friction(model, data)
        mujoco.mj_step2(model, data)


def correct_friction(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    r"""Correct the reference accelerations of contacts of this time step.

    **Sliding.** MuJoCo finds contact forces as the minimum of a convex function. At a contact that
    slides with the elliptic cone, its normal force is

    .. math::
        f_n \propto \| \mu \circ (a_t + b\, v_t) \| - (a_n - a_n^*), \qquad b = 2 / (d\, T_c)

    so a slip :math:`v_t` acts as an approach with :math:`\mu v_t`. A body of mass m that is
    pressed on with F and slides faster than :math:`F / (m \mu b)` is lifted off and bounces: from
    15 mm/s for 10 N, 4 kg, :math:`\mu = 0.3` and a contact time :math:`T_c` of 4 ms. Coulomb
    friction has no such coupling, so it is subtracted from the normal reference acceleration,

    .. math:: a_n^* \leftarrow a_n^* - \| \mu \circ b\, v_t \|

    Source of the effect: Castro, Permenter and Han, IEEE Trans. Robotics 2022 (convex contact lets
    bodies glide at a distance).

    **Sticking.** MuJoCo makes :math:`J \ddot q = a_t^* = -b\, v_t` of friction and leaves
    :math:`\dot J \dot q` out. On a curved path a grasped object thus creeps with
    :math:`\dot J \dot q / b`: 0.13 mm/s between two hands that move at 0.16 m/s, for a
    contact time of 20 ms. The slip of a contact that sticks ends within one time step h instead,

    .. math:: a_t^* = -v_t / h

    as with the shortest time constant that MuJoCo permits.

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
    slips: list[float] = data.efc_vel.tolist()
    rate = -1.0 / model.opt.timestep
    each = zip(contacts.efc_address.tolist(), contacts.dim.tolist(), contacts.friction.tolist())
    for normal, size, friction in each:
        if normal >= 0 and size > 1:
            first, end = normal + 1, normal + size
            reference[normal] -= math.hypot(*map(mul, friction, rows[first:end]))
            if math.hypot(slips[first], slips[first + 1]) < STICKING:
                for row in range(first, end):
                    reference[row] = rate * slips[row]
