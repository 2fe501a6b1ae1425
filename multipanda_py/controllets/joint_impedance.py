# SPDX-License-Identifier: Apache-2.0
"""Joint-space impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.modal_damping import KEPT, LEAST_RATIO, ModalDamping
from multipanda_py.controllet import Controllet
from multipanda_py.handover import MAX_STEP, Handover, share_of, tool_wrench
from multipanda_py.parameters import joint_vector
from multipanda_py.report import Report, report_titles
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import JointTarget

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_TargetT = TypeVar("_TargetT", bound=JointTarget)
SOFT = 1.0
"""Stiffness of a joint too small to press with [Nm/rad]."""


@dataclass(frozen=True, eq=False)
class JointImpedanceParams:
    """Gains of :class:`JointImpedance`."""

    stiffness: Vector = joint_vector(
        "stiffness",
        unit="Nm/rad",
        low=0,
        high="most_stiffness",
        doc="joint stiffness K; more swings at the torque rate limit if the arm is some ms late",
    )
    damping_ratio: Vector = joint_vector(
        1.0, low=LEAST_RATIO, high=5, doc="1 is critically damped in every posture"
    )


LEASH_SHARE = 0.4
"""Of the torque limit that a spring may pull a held arm with."""
FULL_RATE = 1000.0
"""Torque rate at which that has been tried out [Nm/s]."""


class JointImpedanceLaw(Controllet[_TargetT, JointImpedanceParams]):
    r"""Render a joint spring and an inertia-aware damper around a target.

    .. math::
        \tau = M \ddot q_d + K (q_d - q) + D (\dot q_d - \dot q)

    with the acceleration of a governed target, which is zero at rest, and D from
    :class:`~multipanda_py.control.modal_damping.ModalDamping` for the joint-space inertia.
    Source: Albu-Schäffer, Ott, Frese and Hirzinger, ICRA 2003.
    """

    Params = JointImpedanceParams
    default_features: ClassVar[tuple[str, ...]] = ("coriolis",)
    report_names: ClassVar[tuple[Report | str, ...]] = (KEPT,)
    """Those of a derived law have this one among them."""
    max_lead = MAX_STEP
    """Farthest that a seeded target may lie from a measured joint [rad]."""

    def __init__(self, context: Context, params: JointImpedanceParams) -> None:
        self._modal = ModalDamping(context.n_joints)
        self._mass, self._unit = eigenpy.LLT(np.eye(context.n_joints)), np.eye(context.n_joints)
        self._error, self._rate = np.zeros(context.n_joints), np.zeros(context.n_joints)
        self._leashed = params
        self._kept_at = report_titles(self.report_names).index(str(KEPT))
        robot = context.arms[0].robot
        self._usual, self._lag = (np.array(robot.figure(name)) for name in ("stiffness", "lag"))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare K^1/2 and Z, and how far ahead of the arm a governed reference may be."""
        self._modal.set_root(np.diag(np.sqrt(self.params.stiffness)), self.params.damping_ratio)

    def _leash(self, states: Sequence[ArmState]) -> Matrix:
        r"""Return the leash of a governed reference, (2, n) [rad].

        At rest :math:`0.4\, \tau_{max} / K`, on the way the same times
        :math:`\min(1, \sqrt{K_0 / K})` with the default K: the damper of a stiffer spring needs
        torque faster, and a late arm let go of would swing at the limit of torque rate. Neither is
        less than what an arm lags behind that is heavier than its model.
        """
        most = np.min([state.limits.torque for state in states], axis=0)
        rate = np.min([state.limits.torque_rate for state in states], axis=0)
        stiffness = np.maximum(self.params.stiffness, 1e-3)
        at_rest = LEASH_SHARE * most * np.minimum(1.0, rate / FULL_RATE) / stiffness
        moving = at_rest * np.minimum(1.0, np.sqrt(self._usual / stiffness))
        return np.array([np.maximum(moving, self._lag), np.maximum(at_rest, self._lag)])

    def on_activate(self, states: Sequence[ArmState], target: _TargetT) -> None:
        """Hold the measured posture."""
        target.leash[:] = self._leash(states)
        self._leashed = self.params
        for arm, state in enumerate(states):
            target.q[arm][:] = state.q
            target.dq[arm][:] = 0.0

    def on_handover(
        self, states: Sequence[ArmState], target: _TargetT, handovers: Sequence[Handover]
    ) -> str:
        """Put the targets where the joint springs press as before, within the joint limits."""
        words = []
        for q, state, handover in zip(target.q, states, handovers):
            stiffness = self._stiffness_at(state)
            held = self.params.stiffness >= SOFT
            step = np.zeros_like(q)
            step[held] = np.linalg.solve(stiffness[np.ix_(held, held)], handover.tau[held])
            step /= max(1.0, float(np.abs(step).max()) / self.max_lead)
            limits = state.limits
            q += np.clip(step, limits.lower - q, limits.upper - q)
            wrench = tool_wrench(state, stiffness @ (q - state.q))
            words.append(handover.words(state.name, share_of(wrench, handover.wrench_in_base)))
        return "; ".join(filter(None, words))

    def _stiffness_at(self, state: ArmState) -> Matrix:
        """Return what the posture leaves of the stiffness, (n, n)."""
        self._mass.compute(state.mass)
        self._modal.design(self._mass.solve(self._unit))
        asked = np.diag(self.params.stiffness)
        return asked if self._modal.kept == 1.0 else self._modal.stiffness

    def update(self, states: Sequence[ArmState], target: _TargetT, period: float) -> None:
        """Write the joint torques of every arm."""
        if self._leashed is not self.params:
            target.leash[:] = self._leash(states)
            self._leashed = self.params
        kept = 1.0
        for arm, state in enumerate(states):
            self._mass.compute(state.mass)
            inertia_inv = self._mass.solve(self._unit)
            _subtract(target.q[arm], state.q, self._error)
            _subtract(target.dq[arm], state.dq, self._rate)
            tau, modal = self.tau[arm], self._modal
            brake = modal.damp(inertia_inv, self._rate)
            if modal.kept == 1.0:
                _multiply(self.params.stiffness, self._error, tau)
            else:
                _dot(modal.stiffness, self._error, tau)
            _add(tau, brake, tau)
            if target.moving[arm]:
                _add(tau, _dot(state.mass, target.ddq[arm], self._rate), tau)
            if modal.kept < kept:
                kept, self.softest = modal.kept, arm
        self.report[self._kept_at] = kept


class JointImpedance(JointImpedanceLaw[JointTarget]):
    """Render a joint spring and damper around a target that users set."""

    Target = JointTarget
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
