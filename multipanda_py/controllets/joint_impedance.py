# SPDX-License-Identifier: Apache-2.0
"""Joint-space impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import vector
from multipanda_py.state import JOINTS, ArmState, Vector
from multipanda_py.targets import JointTarget

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_TargetT = TypeVar("_TargetT", bound=JointTarget)


@dataclass(frozen=True, eq=False)
class JointImpedanceParams:
    """Gains of :class:`JointImpedance`."""

    stiffness: Vector = vector(
        600, 600, 600, 600, 250, 150, 50, unit="Nm/rad", low=0, high=5000, doc="joint stiffness K"
    )
    damping_ratio: Vector = vector(
        *[1.0] * JOINTS, low=0, high=5, doc="1 is critically damped in every posture"
    )


class JointImpedanceLaw(Controllet[_TargetT, JointImpedanceParams]):
    r"""Render a joint spring and an inertia-aware damper around a target.

    .. math::
        \tau = K (q_d - q) + D (\dot q_d - \dot q), \qquad
        D = M^{1/2} Z K^{1/2} + K^{1/2} Z M^{1/2}

    with the diagonal damping ratios :math:`Z`. Source: Albu-Schäffer, Ott, Frese and
    Hirzinger, ICRA 2003 (double-diagonalisation and square-root designs of the damping).
    """

    Params = JointImpedanceParams
    default_features = ("coriolis",)

    def __init__(self, context: Context, params: JointImpedanceParams) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(JOINTS))
        self._damping = np.zeros((JOINTS, JOINTS))
        self._error, self._rate, self._brake = (np.zeros(JOINTS) for _ in range(3))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare D = M^1/2 o S with S_ij = s_i + s_j and s = Z K^1/2."""
        s = self.params.damping_ratio * np.sqrt(self.params.stiffness)
        self._scale = s[:, None] + s[None, :]

    def on_activate(self, states: Sequence[ArmState], target: _TargetT) -> None:
        """Hold the measured posture."""
        for arm, state in enumerate(states):
            target.q[arm][:] = state.q
            target.dq[arm][:] = 0.0

    def update(self, states: Sequence[ArmState], target: _TargetT, period: float) -> None:
        """Write the joint torques of every arm."""
        for arm, state in enumerate(states):
            self._eigen.compute(state.mass)
            _multiply(self._eigen.operatorSqrt(), self._scale, self._damping)
            _subtract(target.q[arm], state.q, self._error)
            _subtract(target.dq[arm], state.dq, self._rate)
            tau = _multiply(self.params.stiffness, self._error, self.tau[arm])
            _add(tau, _dot(self._damping, self._rate, self._brake), tau)


class JointImpedance(JointImpedanceLaw[JointTarget]):
    """Render a joint spring and damper around a target that users set."""

    Target = JointTarget
