# SPDX-License-Identifier: Apache-2.0
"""Keep away from singular postures by a potential of the manipulability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.impedance.joint_spring import NullspaceProjector, nothing_left
from multipanda_py.feature import Feature
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import Target

_add = np.add
_SINGULAR = 1e-16


@dataclass(frozen=True, eq=False)
class ManipulabilityParams:
    """Potential of :class:`Manipulability`."""

    gain: float = number(10.0, unit="J", low=0, high=10000, doc="k_m of k_m (m - m_0)^2")
    threshold: float = number(
        0.1, low=0, high=10, doc="m_0, the manipulability above which nothing is added"
    )
    in_nullspace: bool = flag(
        True, doc="project with the dynamically consistent projector, so that the task rests"
    )


class Manipulability(Feature[ManipulabilityParams]):
    r"""Push the joints uphill in manipulability where there is little of it.

    .. math::
        m = \sqrt{\det(J J^T)}, \qquad
        V = k_m (m - m_0)^2 \text{ for } m \le m_0 \text{ else } 0, \qquad
        \tau = -\frac{\partial V}{\partial q}, \qquad
        \frac{\partial m}{\partial q_k} =
        m\, \mathrm{tr}\!\left( (J J^T)^{-1} \frac{\partial J}{\partial q_k} J^T \right)

    The gradient is analytic, from the kinematic Hessian. Metres and radians are mixed in m,
    as in the source. At an exactly singular posture the potential has an edge and no
    gradient; nothing is added there. Source: multipanda_ros2, equations 5 to 7, after
    Dietrich et al., IEEE Trans. Robotics 2012.
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
        """Say anew which arms have no nullspace."""
        self._unsaid = list(nothing_left(self.context, "manipulability"))

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of every arm that is below the threshold."""
        gradients = self.before_projection(states, target)
        for state, torque, gradient, projector in zip(states, tau, gradients, self._projectors):
            if gradient is not None:
                if self.params.in_nullspace:
                    projector.dynamic(state, gradient)
                _add(torque, gradient, torque)

    @property
    def is_projected(self) -> bool:
        """Whether the task is to rest."""
        return self.params.in_nullspace

    def before_projection(self, states: Sequence[ArmState], target: Target) -> list[Vector | None]:
        """Return the torques of every arm that is below the threshold."""
        if self._unsaid and self.params.in_nullspace:
            self.context.notify(f"{self._unsaid.pop()}; in_nullspace: false moves the tool")
        return [self._gradient(state, *own) for state, own in zip(states, self._arms)]

    def _gradient(
        self, state: ArmState, inverse: Matrix, flat: Vector, torque: Vector
    ) -> Vector | None:
        """Return the torque downhill, (n,) [Nm]; None where there is nothing to be added.

        Args:
            state: The arm.
            inverse: Where the weighted pseudo-inverse of the Jacobian goes, (n, 6).
            flat: The same array as one vector, (6 n,).
            torque: Where the torque goes, (n,).
        """
        solver, p = self._solver, self.params
        solver.compute(state.jacobian_gram)
        squared = math.prod(solver.vectorD().tolist())
        if not _SINGULAR < squared < p.threshold**2:
            return None
        m = math.sqrt(squared)
        # The slope of the potential goes in with the unit matrix, where it costs least.
        self._scale.fill(-2.0 * p.gain * (m - p.threshold) * m)
        state.jacobian.T.dot(solver.solve(self._scaled), inverse)
        return state.hessian().reshape(len(torque), -1).dot(flat, torque)
