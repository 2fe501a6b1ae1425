# SPDX-License-Identifier: Apache-2.0
"""Joint friction as a function of joint velocity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.registry import needed
from multipanda_py.robots.robot import FIGURES
from multipanda_py.state import Matrix, Vector

DEFAULT_COULOMB_WIDTH = 0.01
"""Width w of the Coulomb friction step if it is not identified [rad/s, m/s]."""
MAX_STEEPNESS = 100.0
"""Maximum steepness of a friction sigmoid that the feature ``friction`` accepts [s/rad]."""


@dataclass(frozen=True, eq=False)
class FrictionShape:
    r"""Shape of the Coulomb friction of each joint near zero velocity.

    .. math:: \tau_f = f_v \dot q + f_c \tanh\!\left( \frac{\dot q + s}{w} \right) + f_o.

    Symbols: viscous friction :math:`f_v`, Coulomb friction :math:`f_c`, offset :math:`f_o`, width
    w and shift s. The torque is linear in :math:`f_v, f_c, f_o`. For :math:`f_v = 0` it equals the
    sigmoid of Gaz et al. (RA-L 2019) with :math:`\varphi_1 = 2 f_c`, :math:`\varphi_2 = 2 / w` and
    :math:`\varphi_3 = s`.

    Attributes:
        width: Width w of the step, (n,) [rad/s, m/s].
        shift: Shift s of the step, (n,) [rad/s, m/s].
    """

    width: Vector
    shift: Vector

    @classmethod
    def sharp(cls, joints: int) -> FrictionShape:
        """Return the shape for unidentified friction: :data:`DEFAULT_COULOMB_WIDTH`, no shift."""
        return cls(np.full(joints, DEFAULT_COULOMB_WIDTH), np.zeros(joints))

    def columns(self, dq: Matrix) -> Matrix:
        """Return the regressor columns of :math:`f_v, f_c, f_o` of every joint, (N, n, 3).

        Args:
            dq: Joint velocities, (N, n) [rad/s, m/s].
        """
        step = np.tanh((dq + self.shift) / self.width)
        return np.stack([dq, step, np.ones_like(dq)], axis=2)

    def rows(self, dq: Matrix) -> Matrix:
        """Return the friction regressor of all joints, (N, n, 3 n).

        Its columns are :math:`f_v` of all joints, then :math:`f_c`, then :math:`f_o`.

        Args:
            dq: Joint velocities, (N, n) [rad/s, m/s].
        """
        n = dq.shape[1]
        rows = np.zeros((len(dq), n, 3 * n))
        terms = self.columns(dq)
        for joint in range(n):
            rows[:, joint, joint::n] = terms[:, joint]
        return rows


@dataclass(frozen=True, eq=False)
class FrictionEstimate:
    """Identified friction of n joints.

    Attributes:
        viscous: Viscous friction, (n,) [Nm s/rad].
        coulomb: Coulomb friction, (n,) [Nm].
        offset: Constant torque, (n,) [Nm].
        shape: Shape of the Coulomb friction near zero velocity.
    """

    viscous: Vector
    coulomb: Vector
    offset: Vector
    shape: FrictionShape

    @property
    def terms(self) -> tuple[Vector, Vector, Vector]:
        """Viscous friction, Coulomb friction and offset, (n,) each."""
        return self.viscous, self.coulomb, self.offset

    def torque(self, dq: Matrix) -> Matrix:
        """Return the friction torque at joint velocities ``dq``, (N, n) [Nm]."""
        terms = np.stack(self.terms, axis=1)
        torque: Matrix = (self.shape.columns(dq) * terms).sum(axis=2)
        return torque

    def sigmoid_parameters(self) -> dict[str, tuple[float, ...]]:
        """Return the sigmoid parameters that the feature ``friction`` compensates with."""
        steepness = np.minimum(2.0 / self.shape.width, MAX_STEEPNESS)
        phi = (2.0 * self.coulomb, steepness, self.shape.shift)
        return {name: tuple(values.tolist()) for name, values in zip(FIGURES, phi)}


def fit_friction(rows: Matrix, tau: Matrix, shape: FrictionShape) -> FrictionEstimate:
    """Fit joint friction to the torques that remain after subtracting the inertial torques.

    All samples are used, also those near zero velocity. Viscous and Coulomb friction are
    constrained to be non-negative.

    Args:
        rows: Regressor of :math:`f_v, f_c, f_o`, (N, n, 3 n).
        tau: Torques without the inertial torques, (N, n) [Nm].
        shape: Shape of the Coulomb friction near zero velocity.
    """
    n = tau.shape[1]
    friction = np.empty((3, n))
    for joint in range(n):
        columns = rows[:, joint, joint::n]
        bounds = ([0.0, 0.0, -np.inf], np.inf)
        friction[:, joint] = needed("scipy.optimize").lsq_linear(columns, tau[:, joint], bounds).x
    return FrictionEstimate(friction[0], friction[1], friction[2], shape)
