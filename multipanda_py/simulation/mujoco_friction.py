# SPDX-License-Identifier: Apache-2.0
"""Corrections of MuJoCo's friction, for sliding bodies, grasped objects and joints at rest."""

from __future__ import annotations

import math
from operator import mul
from typing import Any

import numpy as np

from multipanda_py.registry import extras_named
from multipanda_py.state import Vector

with extras_named():
    import mujoco


_ELLIPTIC = int(mujoco.mjtCone.mjCONE_ELLIPTIC)
REST_SQUARED_SPEED = 1e-10
"""Sum of squared velocities below which a scene counts as at rest [rad^2/s^2, m^2/s^2]."""
MAX_STICKING_SLIP = 5e-4
"""Maximum slip of a contact that sticks [m/s]."""


def step(model: mujoco.MjModel, data: mujoco.MjData, steps: int = 1) -> None:
    """Advance the physics by ``mj_step``, with the friction of :func:`correct_friction`."""
    for _ in range(steps):
        mujoco.mj_step1(model, data)
        if data.ncon:
            correct_friction(model, data)
        mujoco.mj_step2(model, data)


def correct_friction(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    r"""Correct MuJoCo's friction of sliding and sticking contacts in a time step.

    **Sliding.** At a sliding contact with the elliptic cone, MuJoCo's normal force is

    .. math::
        f_n \propto \| \mu \circ (a_t + b\, v_t) \| - (a_n - a_n^*), \qquad b = 2 / (d\, T_c) .

    Here :math:`\mu` is the friction coefficient, :math:`\circ` the product of elements, d the
    impedance and :math:`T_c` the time constant of the contact. :math:`a_t` and :math:`a_n` are
    tangential and normal acceleration. :math:`a_n^*` is MuJoCo's reference acceleration
    (``efc_aref``). The slip :math:`v_t` lifts the body off, unlike in Coulomb friction. Its term
    is therefore subtracted,

    .. math:: a_n^* \leftarrow a_n^* - \| \mu \circ b\, v_t \| .

    Source of the effect: Castro, Permenter and Han, IEEE Trans. Robotics 2022.

    **Sticking.** With the contact Jacobian J, MuJoCo's friction uses :math:`J \ddot q = a_t^* =
    -b\, v_t` and neglects :math:`\dot J \dot q`. On a curved path, a grasped object therefore
    creeps with :math:`\dot J \dot q / b`. With the corrected reference, the slip of a sticking
    contact ends within one time step h,

    .. math:: a_t^* = -v_t / h .

    Args:
        model: Model of the scene. Models with pyramidal friction cones are not corrected.
        data: State after ``mj_step1`` and before ``mj_step2``.
    """
    velocity = data.qvel
    if velocity.dot(velocity) < REST_SQUARED_SPEED or model.opt.cone != _ELLIPTIC:
        return
    contacts: Any = data.contact
    reference = data.efc_aref
    # For a few contacts, lists of floats take a fifth of the time of arrays.
    rows: list[float] = reference.tolist()
    slips: list[float] = data.efc_vel.tolist()
    rate = -1.0 / model.opt.timestep
    each = zip(contacts.efc_address.tolist(), contacts.dim.tolist(), contacts.friction.tolist())
    for normal, size, friction in each:
        if normal >= 0 and size > 1:
            first, end = normal + 1, normal + size
            reference[normal] -= math.hypot(*map(mul, friction, rows[first:end]))
            if math.hypot(slips[first], slips[first + 1]) < MAX_STICKING_SLIP:
                for row in range(first, end):
                    reference[row] = rate * slips[row]


STICKING_SOLIMP: Vector = np.array([0.9999, 0.9999, 0.001, 0.5, 2.0])
"""``solimpfriction`` with the maximum impedance that MuJoCo allows."""
_SOFT_SOLREF = (0.02, 1.0)  # MuJoCo's default of ``solref``.
_SOFT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)  # MuJoCo's default of ``solimp``.


def sticking_solref(timestep: float) -> Vector:
    """Return the ``solreffriction`` with which friction stops a joint within a time step [s]."""
    return np.array([2.0 * timestep, 1.0])


def let_friction_stick(model: mujoco.MjModel) -> None:
    r"""Change MuJoCo's dry friction so that joints and tendons at rest do not creep.

    Only joints and tendons with MuJoCo's default friction parameters are changed. MuJoCo models
    dry friction as a soft constraint, with which a joint creeps below the friction limit by

    .. math:: \dot q = \frac{1 - d}{d} \, \frac{a}{b} .

    Here :math:`a` is the acceleration by the load without friction, :math:`d` the impedance and
    :math:`b` the damping of the constraint. The creep becomes :math:`10^{-4}\, h \, a` for the
    step length :math:`h`.

    Args:
        model: Model of the robot, with its step length set; modified in place.
    """
    for solref, solimp in (
        (model.dof_solref, model.dof_solimp),
        (model.tendon_solref_fri, model.tendon_solimp_fri),
    ):
        soft = (solref == _SOFT_SOLREF).all(axis=1) & (solimp == _SOFT_SOLIMP).all(axis=1)
        solref[soft] = sticking_solref(model.opt.timestep)
        solimp[soft] = STICKING_SOLIMP
