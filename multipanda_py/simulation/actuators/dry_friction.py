# SPDX-License-Identifier: Apache-2.0
r"""Dry friction of joints that sticks.

MuJoCo's dry friction is a soft constraint. Under a load below its bound a joint creeps with

.. math:: \dot q = \frac{1 - d}{d} \, \frac{a}{b}

for the acceleration :math:`a` by the load without friction, the impedance :math:`d` and the
damping :math:`b` of the constraint. With MuJoCo's defaults that is :math:`10^{-3} a`, in seconds.
The largest impedance and a time constant of two steps, which brings a joint to rest in one step,
leave :math:`10^{-4}\, h \, a` with steps of length :math:`h`: 1 mrad in 10 s at 1000 rad/s^2 and
1 ms.
"""

from __future__ import annotations

import numpy as np

from multipanda_py.registry import extras_named
from multipanda_py.state import Vector

with extras_named():
    import mujoco

IMPEDANCE: Vector = np.array([0.9999, 0.9999, 0.001, 0.5, 2.0])
"""``solimpfriction`` with MuJoCo's largest impedance."""
_SOFT_SOLREF = (0.02, 1.0)
_SOFT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


def sticking_solref(timestep: float) -> Vector:
    """Return the ``solreffriction`` that stops a joint in one step of a length [s], (2,)."""
    return np.array([2.0 * timestep, 1.0])


def let_friction_stick(model: mujoco.MjModel) -> None:
    """Let dry friction of joints and tendons stick where its parameters are MuJoCo's defaults.

    Args:
        model: Model of the robot, with the length of its steps; changed.
    """
    for solref, solimp in (
        (model.dof_solref, model.dof_solimp),
        (model.tendon_solref_fri, model.tendon_solimp_fri),
    ):
        soft = (solref == _SOFT_SOLREF).all(axis=1) & (solimp == _SOFT_SOLIMP).all(axis=1)
        solref[soft] = sticking_solref(model.opt.timestep)
        solimp[soft] = IMPEDANCE
