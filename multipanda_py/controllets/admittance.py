# SPDX-License-Identifier: Apache-2.0
"""Admittance control with an inner Cartesian impedance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot

from multipanda_py.context import BumplessTransfer, Context, bounded_error
from multipanda_py.control.force.virtual_mass import VirtualBody, length
from multipanda_py.control.impedance.gains import MAX_STIFFNESS
from multipanda_py.control.impedance.limit_scaling import WRENCH_SCALE
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.control.reference.pose_governor import tool_motion
from multipanda_py.controllet import Controllet
from multipanda_py.controllets.cartesian_impedance import (
    CartesianImpedance,
    CartesianImpedanceParams,
)
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import CartesianTarget, Report

MAX_SPEED_FRACTION = 0.3
"""Fraction of joint speed limits that the virtual body may need near a singular configuration.
Dampers of the inner impedance act from 0.35 on."""


@dataclass(frozen=True, eq=False)
class AdmittanceParams:
    """Parameters of the virtual body of ``Admittance`` and of its inner impedance."""

    mass: Vector = vector(
        4, 4, 4, unit="kg", low=0.5, high=100, doc="virtual mass along the axes of the base"
    )
    inertia: Vector = vector(
        0.2, 0.2, 0.2, unit="kg m^2", low=0.02, high=10,
        doc="virtual inertia about the axes of the base",
    )  # fmt: skip
    stiffness: Vector = vector(
        200, 200, 200, 10, 10, 10, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="virtual stiffness towards the target; 0 leaves the axis free",
    )  # fmt: skip
    damping: Vector = vector(
        100, 100, 100, 6, 6, 6, unit="N s/m, Nm s/rad", low=0, high=(5000,) * 3 + (300,) * 3,
        doc="virtual damping; low values are unstable in contact (see class Admittance)",
    )  # fmt: skip
    inner_stiffness: Vector = vector(
        1000, 1000, 1000, 50, 50, 50,
        unit="N/m, Nm/rad", low=(10,) * 3 + (1,) * 3, high=MAX_STIFFNESS,
        doc="stiffness of the inner impedance that follows the virtual body",
    )  # fmt: skip
    max_force: float = number(
        60.0, unit="N", low=5, high=200,
        doc="maximum force of the inner impedance along each axis",
    )  # fmt: skip
    max_torque: float = number(
        16.0, unit="Nm", low=1, high=40,
        doc="maximum torque of the inner impedance about each axis",
    )  # fmt: skip
    wrench_time: float = number(
        0.01, unit="s", low=0, high=1,
        doc="time constant of the low-pass filter on the measured wrench",
    )  # fmt: skip
    tare_time: float = number(
        0.1, unit="s", low=0, high=5,
        doc="averaging time of the wrench offset after activation; 0 disables the offset",
    )  # fmt: skip
    max_tare_force: float = number(
        5.0, unit="N", low=0, high=50,
        doc="maximum force of the wrench offset; a larger force counts as contact",
    )  # fmt: skip
    max_tare_torque: float = number(
        1.0, unit="Nm", low=0, high=10, doc="maximum torque of the wrench offset"
    )
    force_deadband: float = number(
        1.0, unit="N", low=0, high=50, doc="deadband of the measured force"
    )
    torque_deadband: float = number(
        0.2, unit="Nm", low=0, high=10, doc="deadband of the measured torque"
    )
    max_displacement: float = number(
        0.3, unit="m", low=0, high=1, doc="maximum distance of the virtual body from the target"
    )
    max_rotation: float = number(
        1.0, unit="rad", low=0, high=2.5, doc="maximum angle of the virtual body from the target"
    )
    max_linear_speed: float = number(
        0.3, unit="m/s", low=0.001, high=1.5, doc="maximum virtual speed"
    )
    max_angular_speed: float = number(
        1.0, unit="rad/s", low=0.001, high=2.5, doc="maximum virtual angular speed"
    )


class Admittance(Controllet[CartesianTarget, AdmittanceParams]):
    """Motion of the tool as a virtual mass, spring and damper under the external wrench.

    Equations::

        M ddx + D dx + K x = F_ext
        p_c = p_d + x_p
        R_c = exp(x_r) R_d

    - x: Displacement, translation x_p [m] and rotation vector x_r [rad].
    - M, D, K: Virtual mass [kg, kg m^2], damping and stiffness along the base axes.
    - F_ext: External wrench at the end effector, filtered, (6,) [N, Nm].
    - p_d, R_d: Target position [m] and rotation.
    - p_c, R_c: Reference position and rotation of the inner impedance.

    A stiff inner ``CartesianImpedance`` moves the tool to p_c, R_c. ``VirtualBody`` integrates
    translation and rotation separately, within bounds of displacement and speed.

    *External wrench.* The estimated wrench has an offset: its mean over ``tare_time`` after the
    activation, which is subtracted. A low-pass filter and a smooth deadband suppress noise. Near a
    singular configuration, F_ext excludes the singular direction, and joints need at most
    ``MAX_SPEED_FRACTION`` of their speed limits to follow the body.

    *Maximum force.* The error of the inner impedance is clipped, so that its spring exerts at most
    ``max_force`` and ``max_torque``. This limits hand guiding to about 0.5 m/s.

    *Switch.* An arm that presses on a contact at the activation continues to press. Its wrench
    decreases with the external wrench, and does not increase again.

    *Stability.* Along one axis, the motion is stable if all roots of the following equation have
    negative real parts::

        (Lambda s^2 + D_i s + K_i + K_e) (M s^2 + D s + K) (T s + 1) + K_e K_i = 0

    - Lambda: Apparent mass of the arm [kg].
    - K_i, D_i: Inner stiffness and damping, with D_i = 2 sqrt(Lambda K_i).
    - K_e: Stiffness of an undamped contact [N/m].
    - M, D, K: Virtual mass [kg], damping [N s/m] and stiffness [N/m] along the axis.
    - T: Filter time constant ``wrench_time`` [s].

    For T = 0, the Routh criterion gives a sufficient condition for contacts of any stiffness::

        D (D - 1/2 sqrt(Lambda K_i)) >= K_i M

    The defaults are stable against any contact up to an apparent mass of 30 kg and 1.5 kg m^2.

    Sources: Hogan 1985 (impedance and admittance); Colgate and Hogan, Int. J. Control 1988
    (stability in contact).

    Attributes:
        inner: Cartesian impedance that moves the tools to p_c, R_c.
    """

    Params, Target = AdmittanceParams, CartesianTarget
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    feature_channels = ("joint",)
    contact_classes = ("objects",)
    report_names = (
        Report("displacement", "m", "distance of the tool from its target"),
        Report("rotation", "rad", "angle of the tool from its target"),
        Report("force", "N", "external force on the virtual body"),
        Report("torque", "Nm", "external torque on the virtual body"),
        STIFFNESS_SCALE,
        WRENCH_SCALE,
    )

    def __init__(self, context: Context, params: AdmittanceParams) -> None:
        self._bodies = [VirtualBody(context.period) for _ in context.arms]
        self.inner = CartesianImpedance(context, _inner_impedance_params(params))
        self._measured_target = CartesianImpedance.Target(context.n_arms, n_joints=context.joints)
        self._loads = [np.zeros(6) for _ in context.arms]
        self._compliances = [np.zeros((6, 6)) for _ in context.arms]
        self._carries = [False] * context.n_arms
        super().__init__(context, params)
        self.tau = self.inner.tau

    def on_parameters(self) -> None:
        """Set the gains of the virtual bodies and of the inner impedance."""
        p = self.params
        for body in self._bodies:
            body.set_gains(np.concatenate([p.mass, p.inertia]), p.damping, p.stiffness)
            body.set_bounds(
                (p.max_displacement, p.max_rotation), (p.max_linear_speed, p.max_angular_speed)
            )
            body.set_filter(p.wrench_time, (p.force_deadband, p.torque_deadband))
        inner, old = _inner_impedance_params(p), self.inner.params
        if not (
            np.array_equal(inner.stiffness, old.stiffness)
            and np.array_equal(inner.error_clip, old.error_clip)
        ):
            self.inner.params = inner
            self.inner.on_parameters()

    def on_activate(self, states: Sequence[ArmState], target: CartesianTarget) -> None:
        """Hold the measured pose, with the virtual body at rest."""
        target.seed(states)
        self.inner.on_activate(states, self._measured_target)
        p = self.params
        for body in self._bodies:
            body.reset(p.tare_time, (p.max_tare_force, p.max_tare_torque))
        self._carries = [False] * len(states)

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: CartesianTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Continue to press on contacts while they last.

        A wrench without contact, such as the weight of a tared payload, continues permanently.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        for arm, (state, handover) in enumerate(zip(states, transfers)):
            self._bodies[arm].ignore(-handover.contact_in_base)
            rest = handover.wrench_in_base - handover.contact_in_base
            self._loads[arm][:] = rest - self.inner.hold(arm, state, handover.tau)
            self._compliances[arm][:] = self.inner.compliance(arm, state)
            self._carries[arm] = handover.is_significant
        words = (h.describe(state.name, 1.0) for state, h in zip(states, transfers))
        return "; ".join(filter(None, words))

    def on_deactivate(self) -> None:
        self.inner.on_deactivate()

    def update(self, states: Sequence[ArmState], target: CartesianTarget, period: float) -> None:
        """Move the virtual bodies, and write the torques with which the arms follow them."""
        goal = self._measured_target
        for arm, state in enumerate(states):
            body = self._bodies[arm]
            body.step(_wrench_off_singular_directions(state))
            _slow_body_near_singularity(state, body)
            add(target.position_ee_in_base[arm], body.translation, goal.position_ee_in_base[arm])
            dot(
                body.rotation_matrix,
                target.rotation_ee_in_base[arm],
                goal.rotation_ee_in_base[arm],
            )
            if self._carries[arm]:
                error = dot(self._compliances[arm], self._loads[arm] - body.ignored_wrench)
                bounded_error(error, self.inner.params.error_clip)
                goal.displace(arm, error)
        self.inner.update(states, goal, period)
        body = self._bodies[0]
        self.report[:4] = [
            length(part)
            for part in (body.translation, body.rotation, body.wrench[:3], body.wrench[3:])
        ]
        self.report[4], self.min_scale_arm = self.inner.stiffness_scale, self.inner.min_scale_arm
        self.report[5] = self.inner.report[1]


def _wrench_off_singular_directions(state: ArmState) -> Vector:
    # Along singular directions, the estimate is a torque error divided by a value close to zero.
    space, wrench = state.operational_space(), state.wrench_ext_in_base
    if space.damping == 0.0:
        return wrench
    observed: Vector = space.inertia.dot(space.inertia_inv.dot(wrench))
    return observed


def _slow_body_near_singularity(state: ArmState, body: VirtualBody) -> None:
    if state.operational_space().damping == 0.0:
        return
    dq = tool_motion(state, body.velocity)
    fastest = float(np.abs(dq / state.limits.velocity).max())
    if fastest > MAX_SPEED_FRACTION:
        body.velocity *= MAX_SPEED_FRACTION / fastest


def _inner_impedance_params(params: AdmittanceParams) -> CartesianImpedanceParams:
    max_value = np.repeat((params.max_force, params.max_torque), 3) / params.inner_stiffness
    clip = np.minimum(max_value, CartesianImpedanceParams().error_clip)
    return CartesianImpedanceParams(stiffness=params.inner_stiffness, error_clip=clip)
