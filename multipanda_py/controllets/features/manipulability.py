# SPDX-License-Identifier: Apache-2.0
"""Potential that moves the arm away from singular configurations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np
from numpy import add

from multipanda_py.context import Context
from multipanda_py.control.impedance.joint_spring import (
    NullspaceProjector,
    missing_nullspace_warnings,
)
from multipanda_py.feature import Feature
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import Target

_SINGULAR = 1e-16  # Squared manipulability below which an arm counts as singular.


@dataclass(frozen=True, eq=False)
class ManipulabilityParams:
    """Potential of ``Manipulability``."""

    gain: float = number(
        10.0, unit="J", low=0, high=10000, doc="gain k_m of the potential k_m (m - m_0)^2"
    )
    threshold: float = number(
        0.1, low=0, high=10, doc="manipulability m_0 above which the torque is zero"
    )
    in_nullspace: bool = flag(
        True, doc="project the torque dynamically consistently, so that the tool does not move"
    )


class Manipulability(Feature[ManipulabilityParams]):
    """Torque towards higher manipulability, if the manipulability is low.

    Equations::

        m   = sqrt(det(J J^T))
        V   = k_m (m - m_0)^2 if m <= m_0, else 0
        tau = -dV/dq
        dm/dq_k = m trace((J J^T)^-1 (dJ/dq_k) J^T)

    - m: Manipulability; m_0: ``threshold``.
    - J: Jacobian, (6, n); q: joint positions, (n,) [rad].
    - V: Potential [J]; k_m: ``gain`` [J].
    - tau: Joint torques before the projection, (n,) [Nm].

    The gradient is analytic, from the kinematic Hessian. m combines metres and radians, as in the
    source. At an exactly singular configuration, the potential has no gradient, and the torque is
    zero.

    Source: multipanda_ros2, equations 5 to 7, after Dietrich et al., IEEE Trans. Robotics 2012.
    """

    Params = ManipulabilityParams

    def __init__(self, context: Context, params: ManipulabilityParams) -> None:
        self._solver, self._scaled = eigenpy.LDLT(np.eye(6)), np.eye(6)
        self._scale = self._scaled.reshape(-1)[::7]
        inverses = [np.zeros((arm.n_joints, 6)) for arm in context.arms]
        flat = [inverse.reshape(-1) for inverse in inverses]
        self._arms = list(zip(inverses, flat, context.joint_zeros()))
        self._projectors = [NullspaceProjector(arm.n_joints) for arm in context.arms]
        self._unsaid: list[str] = []
        super().__init__(context, params)

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Schedule the notices about arms without a nullspace."""
        self._unsaid = list(missing_nullspace_warnings(self.context, "manipulability"))

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the potential's torque for each arm whose manipulability is below ``threshold``."""
        gradients = self.before_projection(states, target)
        for state, torque, gradient, projector in zip(states, tau, gradients, self._projectors):
            if gradient is not None:
                if self.params.in_nullspace:
                    projector.dynamic(state, gradient)
                add(torque, gradient, torque)

    @property
    def is_projected(self) -> bool:
        """True if the torque is projected into the nullspace of the task."""
        return self.params.in_nullspace

    def before_projection(self, states: Sequence[ArmState], target: Target) -> list[Vector | None]:
        """Return the potential's torque of each arm, (n,) [Nm].

        It is None for an arm whose manipulability is above ``threshold``.
        """
        if self._unsaid and self.params.in_nullspace:
            self.context.notify(
                f"{self._unsaid.pop()}. Set in_nullspace: false to let it move the tool."
            )
        return [self._gradient(state, *own) for state, own in zip(states, self._arms)]

    def _gradient(
        self, state: ArmState, inverse: Matrix, flat: Vector, torque: Vector
    ) -> Vector | None:
        """Return the torque of the potential, (n,) [Nm]; None if it is zero.

        Args:
            state: State of the arm.
            inverse: Buffer of the weighted pseudoinverse of the Jacobian, (n, 6).
            flat: View of ``inverse`` as one vector, (6 n,).
            torque: Output torque, (n,) [Nm].
        """
        solver, p = self._solver, self.params
        solver.compute(state.jacobian_gram)
        squared = math.prod(solver.vectorD().tolist())
        if not _SINGULAR < squared < p.threshold**2:
            return None
        m = math.sqrt(squared)
        # ``_scale`` is the diagonal of ``_scaled``. With the slope of the potential instead of 1
        # on it, the solver returns the scaled pseudoinverse, without a further product.
        self._scale.fill(-2.0 * p.gain * (m - p.threshold) * m)
        state.jacobian.T.dot(solver.solve(self._scaled), inverse)
        return state.hessian().reshape(len(torque), -1).dot(flat, torque)
