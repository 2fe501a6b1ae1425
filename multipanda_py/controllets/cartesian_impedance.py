# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy import multiply

from multipanda_py.context import BumplessTransfer, Context, tool_wrench
from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.gains import CartesianGains, RampedGains
from multipanda_py.control.impedance.limit_scaling import (
    DAMPING_FULL,
    DAMPING_START,
    WRENCH_SCALE,
    TorqueSaturation,
    VelocityLimitScaling,
)
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.control.impedance.pose_error import sum_of
from multipanda_py.control.impedance.singularity import SingularityDamping, SingularityHold
from multipanda_py.parameters import flag, number
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import CartesianImpedanceTarget

_TargetT = TypeVar("_TargetT", bound=CartesianImpedanceTarget)


@dataclass(frozen=True, eq=False)
class CartesianImpedanceParams(CartesianGains):
    """Gains and feed-forward of ``CartesianImpedance``."""

    twist_timeout: float = number(
        0.1, unit="s", low=0.001, high=10,
        doc="time without a new target twist after which it counts as zero",
    )  # fmt: skip
    feedforward: bool = flag(
        True, doc="feed velocity and acceleration of a streamed target forward"
    )


class CartesianImpedance(RampedGains[CartesianImpedanceTarget, CartesianImpedanceParams]):
    """Cartesian spring and inertia-dependent damper between the tool and its target.

    Equations::

        F_a  = c Lambda ddx_r
        dx_d = c b dx_r
        e    = clip([p_d - p; log(R_d R^T)])
        F    = s_v s_tau K e + d D (dx_d - J dq) + F_s + F_a
        tau  = J^T F + tau_h

    - F: Wrench on the tool, (6,) [N, Nm]; tau: joint torques, (n,) [Nm].
    - e: Clipped pose error, (6,) [m, rad]; p, R: measured pose; p_d, R_d: reference.
    - J: Jacobian of the end effector along the base axes, (6, n).
    - dq: Joint velocities, (n,) [rad/s]; dx_d: fed-forward twist, (6,) [m/s, rad/s].
    - K: Stiffness, (6, 6) [N/m, Nm/rad].
    - D: Damping of ``ModalDamping``, (6, 6) [N s/m, Nm s/rad].
    - s_tau: Scale by ``TorqueSaturation``; s_v, d: scales by ``VelocityLimitScaling``.
    - F_s: Damping of singular directions by ``SingularityDamping``, (6,) [N, Nm].
    - F_a: Fed-forward wrench, (6,) [N, Nm]; Lambda: task-space inertia, (6, 6) [kg, kg m^2].
    - dx_r, ddx_r: Velocity and acceleration of the governed reference, (6,).
    - c: Scale of the feed-forward, 0 to 1; b: inverse of the maximum damping ratio, at most 1.
    - tau_h: Torques of ``SingularityHold``, (n,) [Nm].

    ``CartesianSpring`` describes error, clipping, damping and axes of the gains. A streamed 6 x 6
    stiffness (``target_stiffness``) applies until the parameter ``stiffness`` changes.

    *Feed-forward* (parameter ``feedforward``). While a target is streamed, velocity and
    acceleration of the governed reference are fed forward. With ``governor.response: direct``,
    this applies also after a jump of the target. c decreases linearly to zero as the error grows
    from 50 % to 100 % of ``error_clip``, and as a joint speed grows from 35 % to 65 % of its
    limit. Without a governor, only a streamed twist is fed forward.

    Sources: Hogan 1985; paper on the CRISP controllers, section III-A; Khatib 1987 (inertia).

    Attributes:
        springs: Spring and damper of each arm.
    """

    Params, Target = CartesianImpedanceParams, CartesianImpedanceTarget
    default_features = ("nullspace", "coriolis", "wrench", "joint_limits", "collision_avoidance")
    feature_channels = ("joint",)
    contact_classes = ("objects",)
    report_names = (STIFFNESS_SCALE, WRENCH_SCALE)

    def __init__(self, context: Context, params: CartesianImpedanceParams) -> None:
        self.springs = [CartesianSpring() for _ in context.arms]
        self._torque_saturation = [TorqueSaturation(arm) for arm in context.arms]
        self._velocity_scaling = [VelocityLimitScaling(arm.limits) for arm in context.arms]
        self._singularity_damping = SingularityDamping()
        self._holds = [
            SingularityHold(arm, context.period, spring.stiffness_along)
            for arm, spring in zip(context.arms, self.springs)
        ]
        self._twist_left = [0] * context.n_arms
        self._twist, self._feedforward_wrench = np.zeros(6), np.zeros(6)
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set the gains of the springs, in a ramp over ``gain_time`` while active."""
        p = self.params
        cycles = self.gain_cycles()
        self._twist_scale = 1.0 / max(1.0, float(p.damping_ratio.max()))
        is_new = self.remember_stiffness(p.stiffness)
        for spring in self.springs:
            spring.set_shape(p.damping_ratio, p.error_clip, p.gain_frame == "tool")
            if is_new:
                spring.set_stiffness(p.stiffness, cycles)

    def on_activate(self, states: Sequence[ArmState], target: CartesianImpedanceTarget) -> None:
        """Hold the measured pose, with the measured configuration as the nullspace target."""
        target.seed(states)
        self.start_gains()  # Discards a stiffness that was streamed in an earlier activation.
        self.is_free[:] = [spring.is_free for spring in self.springs]
        self._twist_left = [0] * len(states)
        for hold in self._holds:
            hold.reset()

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: CartesianImpedanceTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Displace the targets so that the springs exert the same wrenches as before the switch.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        words = []
        for arm, (state, handover) in enumerate(zip(states, transfers)):
            rest = handover.wrench_in_base - self.hold(arm, state, handover.tau)
            error, fraction = self.springs[arm].error_for(state, rest)
            target.displace(arm, error)
            words.append(handover.describe(state.name, fraction))
        return "; ".join(filter(None, words))

    def hold(self, arm: int, state: ArmState, tau: Vector) -> Vector:
        """Continue the torques from before a switch along nearly singular directions.

        The tool spring has little effect along these directions (``SingularityHold``).

        Args:
            arm: Index of the arm.
            state: State of the arm.
            tau: Torques before the switch, (n,) [Nm].

        Returns:
            Tool wrench of the continued torques, (6,) [N, Nm].
        """
        return tool_wrench(state, self._holds[arm].resume(state, tau))

    def compliance(self, arm: int, state: ArmState) -> Matrix:
        """Return the inverse stiffness of the spring of an arm, (6, 6) [m/N, rad/Nm]."""
        return self.springs[arm].compliance(state)

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of the tool in directions without stiffness, (n,) [rad/s]."""
        return self.springs[arm].free_velocity(state)

    def on_target(self, channel: str, arm_index: int, target: CartesianImpedanceTarget) -> None:
        """Apply a streamed stiffness, or restart the timeout of a twist."""
        if channel == "stiffness":
            self.springs[arm_index].set_stiffness(target.stiffness[arm_index], self.gain_cycles())
        elif channel == "twist":
            self._twist_left[arm_index] = round(self.params.twist_timeout / self.context.period)

    def update(
        self, states: Sequence[ArmState], target: CartesianImpedanceTarget, period: float
    ) -> None:
        """Write the joint torques of all arms."""
        stiffness_scale = wrench_scale = 1.0
        for arm, state in enumerate(states):
            spring, velocity_scaling = self.springs[arm], self._velocity_scaling[arm]
            velocity_ratio = velocity_scaling.limit_fraction(state)
            feedforward, twist = self._feedforward(arm, state, target, velocity_ratio)
            position, rotation = target.position_ee_in_base[arm], target.rotation_ee_in_base[arm]
            spring.measure(state, position, rotation, twist)
            s_tau = self._torque_saturation[arm].spring_scale(spring, state)
            s_v, d = velocity_scaling.scales(velocity_ratio, spring.ratio, spring.stiffness_scale)
            impedance = spring.wrench(s_v * s_tau, d)
            singularity_damping = self._singularity_damping.damp_spring(state, spring, s_tau)
            wrench = sum_of(impedance, singularity_damping, feedforward)
            tau = wrench.dot(state.jacobian, self.tau[arm])
            self._holds[arm].add(state, tau)
            self.is_free[arm] = spring.is_free
            if s_tau < wrench_scale:
                wrench_scale = s_tau
            if spring.stiffness_scale < stiffness_scale:
                stiffness_scale, self.min_scale_arm = spring.stiffness_scale, arm
        self.report[0], self.report[1] = stiffness_scale, wrench_scale

    def _feedforward(
        self, arm: int, state: ArmState, target: CartesianImpedanceTarget, velocity_ratio: float
    ) -> tuple[Vector | None, Vector | None]:
        """Return the fed-forward wrench F_a [N, Nm] and twist dx_d, (6,) each; None for zero."""
        twist = None
        if self._twist_left[arm] > 0:
            self._twist_left[arm] -= 1
            twist = target.twist_ee_in_base[arm]
        reference = target.motion[arm]
        if not (reference.moving and self.params.feedforward):
            return None, twist
        error_ratio: float = max(np.abs(self.springs[arm].error / self.params.error_clip).tolist())
        speed_scale = (DAMPING_FULL - velocity_ratio) / (DAMPING_FULL - DAMPING_START)
        scale = max(0.0, min(1.0, 2.0 - 2.0 * error_ratio, speed_scale))
        twist = multiply(reference.twist, scale * self._twist_scale, self._twist)
        if scale == 0.0:
            return None, twist
        wrench = state.operational_space().apply_inertia(
            reference.acceleration, self._feedforward_wrench
        )
        return multiply(wrench, scale, wrench), twist

    @property
    def stiffness_scale(self) -> float:
        """Minimum factor by which ``ModalDamping`` reduces the stiffness of an arm, 0 to 1."""
        return min([spring.stiffness_scale for spring in self.springs])
