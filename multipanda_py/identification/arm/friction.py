# SPDX-License-Identifier: Apache-2.0
"""Friction of joints as functions of their velocities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.registry import needed
from multipanda_py.robots.robot import FIGURES
from multipanda_py.state import Matrix, Vector

SHARP = 0.01
"""Velocity within which Coulomb friction turns round, where nobody fits it [rad/s, m/s]."""
STEEPEST = 100.0
"""That the feature ``friction`` takes [s/rad]."""


@dataclass(frozen=True, eq=False)
class FrictionShape:
    r"""What Coulomb friction looks like near rest, per joint.

    .. math:: \tau_f = f_v \dot q + f_c \tanh\!\left( \frac{\dot q + s}{w} \right) + f_o

    is linear in :math:`f_v, f_c, f_o`; with :math:`f_v = 0` it is the sigmoid of Gaz et al. (RA-L
    2019): :math:`\varphi_1 = 2 f_c,\ \varphi_2 = 2 / w,\ \varphi_3 = s`.

    Attributes:
        width: w, (n,) [rad/s, m/s].
        shift: s, (n,) [rad/s, m/s].
    """

    width: Vector
    shift: Vector

    @classmethod
    def sharp(cls, joints: int) -> FrictionShape:
        """Return Coulomb friction that turns round at rest."""
        return cls(np.full(joints, SHARP), np.zeros(joints))

    def columns(self, dq: Matrix) -> Matrix:
        """Return the three terms of every joint, (N, n, 3)."""
        step = np.tanh((dq + self.shift) / self.width)
        return np.stack([dq, step, np.ones_like(dq)], axis=2)

    def rows(self, dq: Matrix) -> Matrix:
        """Return regressors of :math:`f_v, f_c, f_o` of all joints, (N, n, 3 n)."""
        n = dq.shape[1]
        found = np.zeros((len(dq), n, 3 * n))
        terms = self.columns(dq)
        for joint in range(n):
            found[:, joint, joint::n] = terms[:, joint]
        return found


@dataclass(frozen=True, eq=False)
class FoundFriction:
    """Friction of n joints.

    Attributes:
        viscous: (n,) [Nm s/rad].
        coulomb: (n,) [Nm].
        offset: (n,) [Nm].
        shape: Of Coulomb friction near rest.
    """

    viscous: Vector
    coulomb: Vector
    offset: Vector
    shape: FrictionShape

    @property
    def terms(self) -> tuple[Vector, Vector, Vector]:
        """Viscous, Coulomb and offset, (n,) each."""
        return self.viscous, self.coulomb, self.offset

    def torque(self, dq: Matrix) -> Matrix:
        """Return what friction takes, (N, n) [Nm]."""
        terms = np.stack(self.terms, axis=1)
        found: Matrix = (self.shape.columns(dq) * terms).sum(axis=2)
        return found

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the sigmoid that the feature ``friction`` compensates."""
        steepness = np.minimum(2.0 / self.shape.width, STEEPEST)
        phi = (2.0 * self.coulomb, steepness, self.shape.shift)
        return {name: tuple(values.tolist()) for name, values in zip(FIGURES, phi)}


def fit_friction(rows: Matrix, tau: Matrix, shape: FrictionShape) -> FoundFriction:
    """Return the friction that fits what inertia leaves of the torques, also near rest.

    Args:
        rows: Regressors of :math:`f_v, f_c, f_o`, (N, n, 3 n).
        tau: What is left, (N, n) [Nm].
        shape: Of Coulomb friction near rest; viscous and Coulomb friction only take.
    """
    n = tau.shape[1]
    found = np.empty((3, n))
    for joint in range(n):
        columns = rows[:, joint, joint::n]
        bounds = ([0.0, 0.0, -np.inf], np.inf)
        found[:, joint] = needed("scipy.optimize").lsq_linear(columns, tau[:, joint], bounds).x
    return FoundFriction(found[0], found[1], found[2], shape)
