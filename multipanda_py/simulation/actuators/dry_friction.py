# SPDX-License-Identifier: Apache-2.0
r"""Parameters with which MuJoCo's dry friction holds joints at rest.

MuJoCo models dry friction as a soft constraint. Under a load below the friction limit, a joint
creeps with the velocity

.. math:: \dot q = \frac{1 - d}{d} \, \frac{a}{b} .

Here :math:`a` is the acceleration by the load without friction, :math:`d` the impedance and
:math:`b` the damping of the constraint. MuJoCo's defaults give a velocity of
:math:`10^{-3}\,\mathrm{s} \cdot a`. With the maximum impedance and a time constant of two steps, a
joint stops within one step. It then creeps with :math:`10^{-4}\, h \, a` for the step length
:math:`h`, such as 1 mrad in 10 s at 1000 rad/s^2 and 1 ms.
"""

from __future__ import annotations

import numpy as np

from multipanda_py.registry import extras_named
from multipanda_py.state import Vector

with extras_named():
    import mujoco

IMPEDANCE: Vector = np.array([0.9999, 0.9999, 0.001, 0.5, 2.0])
"""``solimpfriction`` with the maximum impedance that MuJoCo allows."""
_SOFT_SOLREF = (0.02, 1.0)  # MuJoCo's default of ``solref``.
_SOFT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)  # MuJoCo's default of ``solimp``.


def sticking_solref(timestep: float) -> Vector:
    """Return the ``solreffriction`` that stops a joint within one step of the given length [s]."""
    return np.array([2.0 * timestep, 1.0])


def let_friction_stick(model: mujoco.MjModel) -> None:
    """Make dry friction hold joints and tendons at rest where it has MuJoCo's default parameters.

    Args:
        model: Model of the robot, with its step length set; modified in place.
    """
    for solref, solimp in (
        (model.dof_solref, model.dof_solimp),
        (model.tendon_solref_fri, model.tendon_solimp_fri),
    ):
        soft = (solref == _SOFT_SOLREF).all(axis=1) & (solimp == _SOFT_SOLIMP).all(axis=1)
        solref[soft] = sticking_solref(model.opt.timestep)
        solimp[soft] = IMPEDANCE
