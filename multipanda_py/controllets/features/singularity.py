# SPDX-License-Identifier: Apache-2.0
"""Damping along nearly singular directions, and torque towards higher manipulability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import eigenpy
import numpy as np
from numpy import add, dot, maximum, multiply, subtract

from multipanda_py.context import Context
from multipanda_py.control.impedance.joint_spring import (
    NullspaceProjector,
    missing_nullspace_warnings,
)
from multipanda_py.feature import Feature
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import Target

_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class SingularityParams:
    """Parameters of ``Singularity``: threshold and rate of the damping."""

    threshold: float = number(
        0.02, unit="1/kg", low=1e-6, high=10,
        doc="eigenvalue of the inverse inertia below which a direction is damped",
    )  # fmt: skip
    rate: float = number(
        20.0, unit="1/s", low=0, high=100,
        doc="rate at which motion along a singular direction decays",
    )  # fmt: skip


class Singularity(Feature[SingularityParams]):
    """Damping along directions with a high apparent mass of the tool.

    Equations::

        tau = -J^T D J dq
        D   = V diag(rho(w_i) / w_i) V^T
        J M^-1 J^T = V diag(w) V^T
        rho(w) = rho_0 (1 - w / eps)^2 if w < eps, else 0

    - tau: Joint torques, (n,) [Nm].
    - J: Jacobian, (6, n); M: inertia matrix, (n, n); dq: joint velocities, (n,) [rad/s].
    - D: Damping, (6, 6).
    - w, V: Eigenvalues [1/kg] and eigenvectors of the inverse task-space inertia.
    - rho_0: ``rate`` [1/s]; eps: ``threshold`` [1/kg].

    Near a singularity, an eigenvalue w_i approaches zero, and the tool has a high apparent mass 1
    / w_i along its direction. The damping is proportional to this mass, so the motion decays at
    the rate rho in any configuration.

    Source: the damping of Albu-Schäffer et al., ICRA 2003, for the inertia of Khatib 1987.
    """

    Params = SingularityParams

    def __init__(self, context: Context, params: SingularityParams) -> None:
        self._modes, self._rate = np.zeros(6), np.zeros(6)
        self._wrench, self._taus = np.zeros(6), context.joint_zeros()
        super().__init__(context, params)

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the damping torques of all arms near a singularity."""
        threshold = self.params.threshold
        for arm, state in enumerate(states):
            space = state.operational_space()
            if space.manipulability >= threshold:
                continue
            w, v = space.eigen()
            rate = self._rate
            maximum(subtract(1.0, w / threshold, rate), 0.0, out=rate)
            multiply(rate, rate, rate)
            multiply(rate, self.params.rate / np.maximum(w, _TINY), rate)
            modes = multiply(dot(state.twist_ee_in_base, v, self._modes), rate, self._modes)
            torque = dot(dot(v, modes, self._wrench), state.jacobian, self._taus[arm])
            subtract(tau[arm], torque, tau[arm])


_SINGULAR = 1e-16  # Squared manipulability below which ``Manipulability`` adds no torque.


@dataclass(frozen=True, eq=False)
class ManipulabilityParams:
    """Parameters of ``Manipulability``: threshold and gain of the potential."""

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

    m combines metres and radians, as in the source. At an exactly singular configuration, the
    torque is zero.

    Source: paper on multipanda_ros2, equations 5 to 7, after Dietrich et al., IEEE Trans. Robotics
    2012.
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
        """Queue warnings about arms without nullspace."""
        self._unsaid = list(missing_nullspace_warnings(self.context, "manipulability"))

    def add(
        self, states: Sequence[ArmState], target: Target, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torque of each arm whose manipulability is below ``threshold``."""
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
        """Return the torque of each arm, (n,) [Nm]; None if the manipulability is high enough."""
        if self._unsaid and self.params.in_nullspace:
            self.context.notify(
                f"{self._unsaid.pop()}. Set in_nullspace: false to let it move the tool."
            )
        return [self._gradient_torque(state, *own) for state, own in zip(states, self._arms)]

    def _gradient_torque(
        self, state: ArmState, inverse: Matrix, flat: Vector, torque: Vector
    ) -> Vector | None:
        """Write the torque -dV/dq, (n,) [Nm], and return it; None if it is zero."""
        solver, p = self._solver, self.params
        solver.compute(state.jacobian_gram)
        squared = math.prod(solver.vectorD().tolist())
        if not _SINGULAR < squared < p.threshold**2:
            return None
        m = math.sqrt(squared)
        # ``_scale`` is the diagonal of ``_scaled``. The solver then returns the pseudoinverse,
        # multiplied by the factor of the gradient dV/dq.
        self._scale.fill(-2.0 * p.gain * (m - p.threshold) * m)
        state.jacobian.T.dot(solver.solve(self._scaled), inverse)
        return state.hessian().reshape(len(torque), -1).dot(flat, torque)
