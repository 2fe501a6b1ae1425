# SPDX-License-Identifier: Apache-2.0
"""Joint impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from numpy import dot, maximum, minimum

from multipanda_py.context import (
    MAX_JOINT_ERROR,
    BumplessTransfer,
    Context,
    fraction_of,
    tool_wrench,
)
from multipanda_py.control.impedance.joint_spring import JointSpring
from multipanda_py.control.impedance.modal_damping import MIN_DAMPING_RATIO, STIFFNESS_SCALE
from multipanda_py.control.impedance.pose_error import sum_of
from multipanda_py.controllet import Controllet
from multipanda_py.parameters import JointVector, joint_vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import JointTarget, Report, report_titles

_TargetT = TypeVar("_TargetT", bound=JointTarget)


@dataclass(frozen=True, eq=False)
class JointImpedanceParams:
    """Gains of ``JointImpedance``."""

    stiffness: JointVector = joint_vector(
        "stiffness", unit="Nm/rad", low=0, high="most_stiffness",
        doc="joint stiffness K; higher values oscillate at the torque-rate limit at high latency",
    )  # fmt: skip
    damping_ratio: JointVector = joint_vector(
        1.0,
        low=MIN_DAMPING_RATIO,
        high=5,
        doc="damping ratio; 1 is critical in every configuration",
    )


class JointImpedanceLaw(Controllet[_TargetT, JointImpedanceParams]):
    """Joint spring and inertia-dependent damper around a target.

    Equations::

        tau_s = K (q_d - q) + D (dq_d - dq)
        tau_a = M ddq_d
        tau   = tau_s + tau_a

    - tau: Joint torques, (n,) [Nm].
    - tau_s, tau_a: Torques of spring and damper, and feed-forward torques, (n,) [Nm].
    - M: Inertia matrix, (n, n) [kg m^2].
    - K: Diagonal stiffness, (n, n) [Nm/rad].
    - D: Damping of ``ModalDamping`` for the joint-space inertia, (n, n) [Nm s/rad].
    - q, dq: Measured positions [rad] and velocities [rad/s], (n,).
    - q_d, dq_d, ddq_d: Governed reference and its derivatives, (n,). ddq_d is zero at rest.

    Source: Albu-Schäffer, Ott, Frese and Hirzinger, ICRA 2003.
    """

    Params = JointImpedanceParams
    default_features: ClassVar[tuple[str, ...]] = ("coriolis",)
    report_names: ClassVar[tuple[Report | str, ...]] = (STIFFNESS_SCALE,)
    """Reports. Those of a derived class must include ``STIFFNESS_SCALE``."""
    max_lead = MAX_JOINT_ERROR
    """Maximum distance from a measured joint to the target set at a switch [rad]."""

    def __init__(self, context: Context, params: JointImpedanceParams) -> None:
        self._springs = [JointSpring(arm) for arm in context.arms]
        self._feedforward_torques = context.joint_zeros()
        self._leashed = params
        self._stiffness_scale_at = report_titles(self.report_names).index(str(STIFFNESS_SCALE))
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains of the springs."""
        p, per_arm = self.params, self.context.per_arm
        self._stiffness = per_arm(p.stiffness)
        for own, stiffness, ratio in zip(self._springs, self._stiffness, per_arm(p.damping_ratio)):
            own.set_gains(stiffness, ratio)

    def _set_max_lead(self, states: Sequence[ArmState], target: _TargetT) -> None:
        for leash, spring, state in zip(target.max_reference_lead, self._springs, states):
            leash[:] = spring.leash(state.limits)
        self._leashed = self.params

    def on_activate(self, states: Sequence[ArmState], target: _TargetT) -> None:
        """Hold the measured configuration."""
        self._set_max_lead(states, target)
        for arm, state in enumerate(states):
            target.q[arm][:] = state.q
            target.dq[arm][:] = 0.0

    def on_transfer(
        self, states: Sequence[ArmState], target: _TargetT, transfers: Sequence[BumplessTransfer]
    ) -> str:
        """Displace the targets so that the springs exert the same torques as before the switch.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = []
        for q, state, handover, spring in zip(target.q, states, transfers, self._springs):
            stiffness, limits = spring.stiffness_at(state), state.limits
            step = spring.deflection(stiffness, handover.tau)
            farthest = max(map(abs, step.tolist()))
            if farthest > self.max_lead:
                step /= farthest / self.max_lead
            q += minimum(maximum(step, limits.lower - q), limits.upper - q)
            if handover.is_significant:
                wrench = tool_wrench(state, stiffness.dot(q - state.q))
                fraction = fraction_of(wrench, handover.wrench_in_base)
                words.append(handover.describe(state.name, fraction))
        return "; ".join(filter(None, words))

    def update(self, states: Sequence[ArmState], target: _TargetT, period: float) -> None:
        """Write the joint torques of all arms."""
        if self._leashed is not self.params:
            self._set_max_lead(states, target)
        stiffness_scale = 1.0
        for arm, state in enumerate(states):
            spring = self._springs[arm]
            impedance = spring.apply(state, target.q[arm], target.dq[arm], self.tau[arm])
            feedforward = self._feedforward(arm, state, target)
            sum_of(impedance, feedforward)
            if spring.stiffness_scale < stiffness_scale:
                stiffness_scale, self.min_scale_arm = spring.stiffness_scale, arm
        self.report[self._stiffness_scale_at] = stiffness_scale

    def _feedforward(self, arm: int, state: ArmState, target: _TargetT) -> Vector | None:
        """Return the feed-forward torques M ddq_d of an arm, (n,) [Nm]; None at rest."""
        if not target.moving[arm]:
            return None
        return dot(state.mass_matrix, target.ddq[arm], self._feedforward_torques[arm])


class JointImpedance(JointImpedanceLaw[JointTarget]):
    """Joint impedance around a target set by clients.

    ``JointImpedanceLaw`` has the equations.
    """

    Target = JointTarget
    default_features: ClassVar[tuple[str, ...]] = ("coriolis", "collision_avoidance")
