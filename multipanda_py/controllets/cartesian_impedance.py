# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import choice, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import CartesianTarget

_dot, _multiply, _subtract = np.dot, np.multiply, np.subtract
_log3 = pin.log3


@dataclass(frozen=True, eq=False)
class CartesianImpedanceParams:
    """Gains of :class:`CartesianImpedance`."""

    stiffness: Vector = vector(
        400, 400, 400, 20, 20, 20, unit="N/m, Nm/rad", low=0, high=5000,
        doc="translational then rotational stiffness along the axes of gain_frame",
    )  # fmt: skip
    damping_ratio: Vector = vector(
        *[1.0] * 6, low=0, high=5, doc="1 is critically damped in every posture"
    )
    gain_frame: str = choice(
        "base", options=("base", "tool"), doc="whose axes the gains are given along"
    )


class CartesianImpedance(Controllet[CartesianTarget, CartesianImpedanceParams]):
    r"""Render a spring and an inertia-aware damper between the tool and its target.

    .. math::
        \tau = J^T \left( K e - D J \dot q \right), \qquad
        e = \begin{bmatrix} p_d - p \\ \log(R_d R^T)^\vee \end{bmatrix}, \qquad
        D = \Lambda^{1/2} Z K^{1/2} + K^{1/2} Z \Lambda^{1/2}

    in the axes of the base; with ``gain_frame: tool`` the error, :math:`\Lambda` and
    :math:`\dot x` are turned into the tool's axes, where K and Z are diagonal, and the
    wrench is turned back. One instance owns as many arms as its list names, each with its
    own target. Sources: Hogan 1985; Albu-Schäffer et al., ICRA 2003 (damping design);
    Khatib 1987 (operational-space inertia, damped near singularities by
    :class:`~multipanda_py.operational_space.OperationalSpace`).
    """

    Params, Target = CartesianImpedanceParams, CartesianTarget
    default_features = ("nullspace", "coriolis")

    def __init__(self, context: Context, params: CartesianImpedanceParams) -> None:
        self._error, self._wrench, self._twist, self._brake = (np.zeros(6) for _ in range(4))
        self._error_position, self._error_rotation = self._error[:3], self._error[3:]
        self._rotation = np.zeros((3, 3))
        self._damping = np.zeros((6, 6))
        self._turn = np.zeros((6, 6))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare D = Lambda^1/2 o S with S_ij = s_i + s_j and s = Z K^1/2."""
        s = self.params.damping_ratio * np.sqrt(self.params.stiffness)
        self._scale = s[:, None] + s[None, :]
        self._in_tool = self.params.gain_frame == "tool"

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, and prefer the measured posture."""
        for arm, state in enumerate(states):
            target.position_ee_in_base[arm][:] = state.position_ee_in_base
            target.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base
            target.posture[arm][:] = state.q

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        error, wrench = self._error, self._wrench
        for arm, state in enumerate(states):
            rotation_d = target.rotation_ee_in_base[arm]
            _subtract(
                target.position_ee_in_base[arm], state.position_ee_in_base, self._error_position
            )
            _dot(rotation_d, state.rotation_ee_in_base.T, self._rotation)
            self._error_rotation[:] = _log3(self._rotation)
            half = state.operational_space().inertia_sqrt
            if self._in_tool:
                self._update_in_tool(state, half)
            else:
                _multiply(self.params.stiffness, error, wrench)
                _multiply(half, self._scale, self._damping)
                _subtract(wrench, _dot(self._damping, state.twist_ee_in_base, self._brake), wrench)
            _dot(wrench, state.jacobian, self.tau[arm])

    def _update_in_tool(self, state: ArmState, half: Matrix) -> None:
        """Evaluate spring and damper along the tool's axes, and turn the wrench back."""
        turn = self._turn
        turn[:3, :3] = turn[3:, 3:] = state.rotation_ee_in_base
        error, twist = _dot(self._error, turn), _dot(state.twist_ee_in_base, turn)
        damping = _dot(_dot(turn.T, half), turn) * self._scale
        _dot(turn, self.params.stiffness * error - _dot(damping, twist), self._wrench)
